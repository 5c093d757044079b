package kernelstate

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// threads are the threads that the kernel left outside of their cgroup's CPUs.
type threads struct {
	log      *slog.Logger
	moved    uint64
	stranded map[cgroup.Path]strandedThreads // cannot be moved
}

// strandedThreads are threads of one cgroup.
type strandedThreads struct {
	tids   []int
	reason error
}

// err returns a description of the threads, with a remedy.
func (s strandedThreads) err(p cgroup.Path) error {
	remedy := "end the process"
	switch {
	case errors.Is(s.reason, syscall.EPERM):
		remedy = "give the daemon CAP_SYS_NICE and sched_setaffinity(2), as the unit of this version does"
	case errors.Is(s.reason, syscall.EINVAL):
		remedy = "if it is a worker of io_uring, as kernels before 6.12 make them, end the process or have it do without"
	}
	return fmt.Errorf("%d threads of %s, the first of them %d, run outside of its CPUs and cannot be brought back (%w): %s", len(s.tids), p, s.tids[0], s.reason, remedy)
}

func (t *threads) move(k Kernel, p cgroup.Path) error {
	found, err := k.Gather(p)
	if found.Back > 0 {
		t.moved += uint64(found.Back)
		t.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", found.Back)
	}
	delete(t.stranded, p)
	if len(found.Stuck) > 0 {
		t.stranded[p] = strandedThreads{found.Stuck, found.Why}
	}
	if errors.Is(err, cgroup.ErrGone) {
		return nil
	}
	return err
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
	for _, s := range t.threads.stranded {
		n += len(s.tids)
	}
	return n
}

// Stranded returns the cgroups with threads that cannot be moved, each with a description
// and a remedy.
func (t *Cache) Stranded() iter.Seq2[cgroup.Path, error] {
	return func(yield func(cgroup.Path, error) bool) {
		for p, s := range t.threads.stranded {
			if !yield(p, s.err(p)) {
				return
			}
		}
	}
}
