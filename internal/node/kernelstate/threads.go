package kernelstate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/node/threads"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const codeStuckThreads pools.Code = "StuckThreads"

// ThreadsFound is the result of a scan of the threads that the event loop does not read.
type ThreadsFound = threads.Found

type threadState struct {
	log      *slog.Logger
	moved    uint64
	stranded map[cgroup.Path]cgroup.Gathered // threads that cannot be moved or read
	scanned  map[cgroup.Path]cgroup.Gathered // the same by the last scan. It takes precedence: it reads all threads
	scanner  *threads.Scanner
}

func strandedErr(p cgroup.Path, g cgroup.Gathered) error {
	remedy := "end the process"
	switch {
	case errors.Is(g.Why, syscall.EPERM):
		remedy = "give the daemon CAP_SYS_NICE and sched_setaffinity(2), as the unit of this version does"
	case errors.Is(g.Why, syscall.EINVAL):
		remedy = "if it is a worker of io_uring, as kernels before 6.12 make them, end the process or have it do without"
	}
	return fmt.Errorf("%d threads of %s, the first of them %d, run outside of its CPUs and cannot be brought back (%w): %s", g.Outside, p, g.Stuck[0], g.Why, remedy)
}

func unreadErr(p cgroup.Path, g cgroup.Gathered) error {
	return fmt.Errorf("threads in %d cgroups below %s may run outside of its CPUs, because the daemon cannot read these cgroups; the first error is %w: "+
		"remove these cgroups, or restart the container or unit", g.Unread, p, g.UnreadErr)
}

func (t *threadState) move(k Kernel, p cgroup.Path) error {
	found, err := k.Gather(p)
	t.note(p, found.Back)
	delete(t.stranded, p)
	if found.Outside+found.Unread > 0 {
		t.stranded[p] = found
	}
	if found.More {
		t.scanner.Submit(p)
	} else {
		delete(t.scanned, p)
	}
	if errors.Is(err, cgroup.ErrGone) {
		return nil
	}
	return err
}

func (t *threadState) note(p cgroup.Path, back int) {
	if back > 0 {
		t.moved += uint64(back)
		t.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", back)
	}
}

func (t *threadState) found() map[cgroup.Path]cgroup.Gathered {
	all := maps.Clone(t.stranded)
	maps.Copy(all, t.scanned)
	maps.DeleteFunc(all, func(_ cgroup.Path, g cgroup.Gathered) bool { return g.Outside+g.Unread == 0 })
	return all
}

// ThreadScans returns a function that scans the containers with more threads or cgroups than the event loop reads, until
// ctx ends. It is for another goroutine. The event loop passes the posted results to NoteThreads.
func (t *Cache) ThreadScans(fs *cgroup.FS) func(ctx context.Context, post func(ThreadsFound)) {
	scanner := t.threads.scanner
	return func(ctx context.Context, post func(ThreadsFound)) {
		scanner.Run(ctx, func(p cgroup.Path) threads.Scan { return fs.ScanThreads(p) }, post)
	}
}

// NoteThreads records the result of a scan.
func (t *Cache) NoteThreads(f ThreadsFound) {
	t.threads.note(f.Path, f.Back)
	if t.Has(f.Path) {
		t.threads.scanned[f.Path] = f.Gathered
	}
}

// MoveThreads moves the threads of a cgroup to its CPUs after a write of them. The caller
// gives the CPUs that it has left to another owner only after that.
func (t *Cache) MoveThreads(p cgroup.Path) error {
	defer t.kernel.Rest()
	return t.threads.move(t.kernel, p)
}

// MovedThreads returns the number of threads that were moved since the start.
func (t *Cache) MovedThreads() uint64 { return t.threads.moved }

// StrandedThreads returns the number of threads that cannot be moved.
func (t *Cache) StrandedThreads() (n int) {
	for _, g := range t.threads.found() {
		n += g.Outside
	}
	return n
}

// Stranded returns the cgroups with threads that cannot be moved, with a remedy.
func (t *Cache) Stranded() map[cgroup.Path]error {
	all := make(map[cgroup.Path]error)
	for p, g := range t.threads.found() {
		if g.Outside > 0 {
			all[p] = strandedErr(p, g)
		}
	}
	return all
}

// ThreadProblems returns the problems of cgroups with threads that cannot be moved or read.
func (t *Cache) ThreadProblems() map[cgroup.Path]pools.Reason {
	all := make(map[cgroup.Path]pools.Reason)
	for p, g := range t.threads.found() {
		var err error
		if g.Outside > 0 {
			err = strandedErr(p, g)
		}
		if g.Unread > 0 {
			err = errors.Join(err, unreadErr(p, g))
		}
		all[p] = pools.Reason{Code: codeStuckThreads, Text: err.Error()}
	}
	return all
}
