package daemon

import (
	"errors"
	"fmt"
	"maps"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeStuckThreads is the code of threads that run where their cgroup must not.
const codeStuckThreads pools.Code = "StuckThreads"

// threads are those that the kernel has left outside of their cgroup's CPUs.
type threads struct {
	gathered uint64                          // since the daemon's start
	stranded map[cgroup.Path]strandedThreads // and cannot be brought back
}

// strandedThreads are threads of one cgroup.
type strandedThreads struct {
	tids []int
	why  error
}

func newThreads() threads { return threads{stranded: make(map[cgroup.Path]strandedThreads)} }

func (t threads) strandedNow() int {
	sum := 0
	for s := range maps.Values(t.stranded) {
		sum += len(s.tids)
	}
	return sum
}

// err says what is wrong, and what to do about it.
func (s strandedThreads) err(p cgroup.Path) error {
	remedy := "end the process"
	switch {
	case errors.Is(s.why, syscall.EPERM):
		remedy = "give the daemon CAP_SYS_NICE and sched_setaffinity(2), as the unit of this version does"
	case errors.Is(s.why, syscall.EINVAL):
		remedy = "if it is a worker of io_uring, as kernels before 6.12 make them, end the process or have it do without"
	}
	return fmt.Errorf("%d threads of %s, the first of them %d, run outside of its CPUs and cannot be brought back (%w): %s", len(s.tids), p, s.tids[0], s.why, remedy)
}

// moveThreads brings the threads of a cgroup back to its CPUs, before anybody is given what
// it has left.
func (l *Loop) moveThreads(p cgroup.Path) error { return l.movedThreads(p, l.Cgroups.Gather) }

func (l *Loop) movedThreads(p cgroup.Path, gather func(cgroup.Path) (cgroup.Gathered, error)) error {
	found, err := gather(p)
	if found.Back > 0 {
		l.threads.gathered += uint64(found.Back)
		l.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", found.Back)
	}
	delete(l.threads.stranded, p)
	if len(found.Stuck) > 0 {
		l.threads.stranded[p] = strandedThreads{found.Stuck, found.Why}
	}
	if errors.Is(err, cgroup.ErrGone) {
		return nil // it has ended
	}
	return err
}

// forgetStranded forgets threads of cgroups that nothing is wanted of any more.
func (l *Loop) forgetStranded() {
	maps.DeleteFunc(l.threads.stranded, func(p cgroup.Path, _ strandedThreads) bool { _, known := l.cache.Current[p]; return !known })
}

func (l *Loop) strandedProblems() []pools.Problem {
	var all []pools.Problem
	for at, s := range l.threads.stranded {
		p := pools.Problem{Reason: pools.Reason{Code: codeStuckThreads, Text: s.err(at).Error()}}
		l.nameOwner(&p, at)
		all = append(all, p)
	}
	return all
}
