package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Threads is what a Tree can do that has the kernel's threads in it.
type Threads interface {
	// Inside says that the online CPUs that a thread may run on
	// (sched_getaffinity(2)) are all among cpus.
	Inside(tid int, cpus cpuset.Set) (bool, error)
	// Unbind lets a thread run on all CPUs of its cpuset (sched_setaffinity(2) of
	// all CPUs, which the kernel cuts down to them).
	Unbind(tid int) error
}

// Gathered is what Gather found.
type Gathered struct {
	// Back is the number of threads that were brought back.
	Back int
	// Stuck are threads that could not be, and Why is the kernel's reason for the first
	// of them: EPERM without CAP_SYS_NICE, EINVAL for workers of io_uring, which before
	// kernel 6.12 are made without regard to the cpuset.
	Stuck []int
	Why   error
}

// gatherRounds bounds Gather. Threads that begin outside do so because they were
// forked while cpuset.cpus was written, each by one that was outside itself: every
// round ends such a line, unless somebody writes cpusets all the while.
const gatherRounds = 16

// Gather brings the threads of a cgroup, and of those below it, back to the
// cpuset.cpus.effective of the cgroup that they are in; ErrGone if p does not exist.
//
// The kernel leaves threads outside and never says so: a child that is forked while
// cpuset.cpus is written can keep the CPUs that its parent had before, because
// update_tasks_cpumask has gone past the end of the list of tasks when
// cpuset_fork copies the parent's old mask (kernel/cgroup/cpuset.c; seen on 6.12,
// ten times in 7,000 writes beside a process that forks without pause, and for a pause
// container at the start of its pod).
// No file of the cgroup shows it, and writing the same value again does nothing.
// A thread's own narrower affinity is left alone. A tree without Threads has nobody
// to bring back.
func (f *FS) Gather(p Path) (Gathered, error) {
	r := f.Reader()
	defer r.Rest()
	return r.Gather(p)
}

// Gather is [FS.Gather].
func (r *Reader) Gather(p Path) (Gathered, error) {
	threads, ok := r.fs.tree.(Threads)
	if !ok || r.fs.readOnly {
		return Gathered{}, nil
	}
	stuck := make(map[int]error)
	back := 0
	for range gatherRounds {
		found, err := r.gatherOnce(p, threads, stuck)
		back += found
		if err != nil || found == 0 {
			return gathered(back, stuck), err
		}
	}
	return gathered(back, stuck), &Error{Op: opGather, Path: string(p), Err: errors.New("threads go on to appear outside of its CPUs: somebody else writes its cpuset without pause")}
}

func gathered(back int, stuck map[int]error) Gathered {
	g := Gathered{Back: back, Stuck: slices.Sorted(maps.Keys(stuck))}
	if len(g.Stuck) > 0 {
		g.Why = stuck[g.Stuck[0]]
	}
	return g
}

// gatherOnce returns how many threads it has brought back.
func (r *Reader) gatherOnce(p Path, threads Threads, stuck map[int]error) (back int, err error) {
	err = r.walk(p, func(o *opened) error {
		n, err := o.gather(threads, stuck)
		if back += n; errors.Is(err, ErrGone) && o.path != p {
			return nil
		}
		return err
	})
	return back, err
}

// walk is FS.Walk with open cgroups.
func (r *Reader) walk(p Path, visit func(*opened) error) error {
	o, err := r.open(p)
	if err != nil {
		return err
	}
	children, err := o.children()
	if err != nil {
		return err
	}
	if err := visit(&o); err != nil {
		return err
	}
	for _, child := range children {
		if err := r.walk(child, visit); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	return nil
}

// gather brings the threads of one cgroup back to what it has itself: a partition below
// another cgroup has CPUs that are not in the set above it.
func (o *opened) gather(threads Threads, stuck map[int]error) (back int, err error) {
	effective, err := o.effectiveOf(o.path)
	if err != nil {
		return 0, err
	}
	list, err := o.readList("cgroup.threads")
	if err != nil {
		return 0, err
	}
	for field := range bytes.FieldsSeq(list) {
		// 0 is a thread of another PID namespace, or one that is ending.
		tid, err := strconv.Atoi(string(field))
		if err != nil || tid == 0 || stuck[tid] != nil {
			continue
		}
		switch in, err := inside(threads, tid, effective); {
		case err != nil:
			return back, err
		case in:
			continue
		}
		// The set is read again before it is said of anybody: to take the affinity
		// of its own from a thread because the set has just grown would be worse.
		if effective, err = o.nearestEffective(o.path); err != nil {
			return back, err
		}
		switch in, err := inside(threads, tid, effective); {
		case err != nil:
			return back, err
		case in:
			continue
		}
		switch err := threads.Unbind(tid); {
		case err == nil:
			back++
		case !errors.Is(err, syscall.ESRCH):
			stuck[tid] = err
		}
	}
	return back, nil
}

// inside says that a thread is where it may be, or has ended.
func inside(threads Threads, tid int, effective cpuset.Set) (bool, error) {
	in, err := threads.Inside(tid, effective)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("ask for the affinity of thread %d: %w", tid, err)
	}
	return in, nil
}
