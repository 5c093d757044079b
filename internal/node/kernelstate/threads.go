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

// Threads holds the threads that run outside of their cgroup's CPUs.
type Threads struct {
	kernel   Kernel
	known    func(cgroup.Path) bool // whether the cache has a cgroup
	log      *slog.Logger
	moved    uint64
	stranded map[cgroup.Path]cgroup.Gathered // threads that cannot be moved or read
	scanned  map[cgroup.Path]cgroup.Gathered // the same by the last scan. It takes precedence: it reads all threads
	scanner  *threads.Scanner
}

func newThreads(k Kernel, known func(cgroup.Path) bool, log *slog.Logger) *Threads {
	return &Threads{kernel: k, known: known, log: log, stranded: make(map[cgroup.Path]cgroup.Gathered), scanned: make(map[cgroup.Path]cgroup.Gathered), scanner: threads.New()}
}

// forget drops the threads of cgroups that the cache has dropped.
func (t *Threads) forget() {
	unknown := func(p cgroup.Path, _ cgroup.Gathered) bool { return !t.known(p) }
	maps.DeleteFunc(t.stranded, unknown)
	maps.DeleteFunc(t.scanned, unknown)
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

func (t *Threads) move(p cgroup.Path) error {
	found, err := t.kernel.Gather(p)
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

func (t *Threads) note(p cgroup.Path, back int) {
	if back > 0 {
		t.moved += uint64(back)
		t.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", back)
	}
}

func (t *Threads) found() map[cgroup.Path]cgroup.Gathered {
	all := maps.Clone(t.stranded)
	maps.Copy(all, t.scanned)
	maps.DeleteFunc(all, func(_ cgroup.Path, g cgroup.Gathered) bool { return g.Outside+g.Unread == 0 })
	return all
}

// Scans returns a function that scans the containers with more threads or cgroups than the event loop reads, until
// ctx ends. It is for another goroutine. The event loop passes the posted results to Note.
func (t *Threads) Scans(fs *cgroup.FS) func(ctx context.Context, post func(threads.Found)) {
	return func(ctx context.Context, post func(threads.Found)) {
		t.scanner.Run(ctx, func(p cgroup.Path) threads.Scan { return fs.ScanThreads(p) }, post)
	}
}

// Note records the result of a scan.
func (t *Threads) Note(f threads.Found) {
	t.note(f.Path, f.Back)
	if t.known(f.Path) {
		t.scanned[f.Path] = f.Gathered
	}
}

// Move moves the threads of a cgroup to its CPUs after a write of them. The caller
// gives the CPUs that it has left to another owner only after that.
func (t *Threads) Move(p cgroup.Path) error {
	defer t.kernel.Rest()
	return t.move(p)
}

// Moved returns the number of threads that were moved since the start.
func (t *Threads) Moved() uint64 { return t.moved }

// CountStranded returns the number of threads that cannot be moved.
func (t *Threads) CountStranded() (n int) {
	for _, g := range t.found() {
		n += g.Outside
	}
	return n
}

// Stranded returns the cgroups with threads that cannot be moved, with a remedy.
func (t *Threads) Stranded() map[cgroup.Path]error {
	all := make(map[cgroup.Path]error)
	for p, g := range t.found() {
		if g.Outside > 0 {
			all[p] = strandedErr(p, g)
		}
	}
	return all
}

// Problems returns the problems of cgroups with threads that cannot be moved or read.
func (t *Threads) Problems() map[cgroup.Path]pools.Reason {
	all := make(map[cgroup.Path]pools.Reason)
	for p, g := range t.found() {
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
