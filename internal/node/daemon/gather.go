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
	gathered uint64                // since the daemon's start
	stuck    map[cgroup.Path]stuck // and cannot be brought back
}

// stuck are threads of one cgroup.
type stuck struct {
	tids []int
	why  error
}

func newThreads() threads { return threads{stuck: make(map[cgroup.Path]stuck)} }

func (t threads) stuckNow() int {
	sum := 0
	for s := range maps.Values(t.stuck) {
		sum += len(s.tids)
	}
	return sum
}

// err says what is wrong, and what to do about it.
func (s stuck) err(p cgroup.Path) error {
	remedy := "end the process"
	switch {
	case errors.Is(s.why, syscall.EPERM):
		remedy = "give the daemon CAP_SYS_NICE and sched_setaffinity(2), as the unit of this version does"
	case errors.Is(s.why, syscall.EINVAL):
		remedy = "if it is a worker of io_uring, as kernels before 6.12 make them, end the process or have it do without"
	}
	return fmt.Errorf("%d threads of %s, the first of them %d, run outside of its CPUs and cannot be brought back (%w): %s", len(s.tids), p, s.tids[0], s.why, remedy)
}

// gather brings the threads of a cgroup back to its CPUs, before anybody is given what
// it has left.
func (l *loop) gather(p cgroup.Path) error { return l.gathered(p, l.Cgroups.Gather) }

func (l *loop) gathered(p cgroup.Path, gather func(cgroup.Path) (cgroup.Gathered, error)) error {
	found, err := gather(p)
	if found.Back > 0 {
		l.threads.gathered += uint64(found.Back)
		l.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", found.Back)
	}
	delete(l.threads.stuck, p)
	if len(found.Stuck) > 0 {
		l.threads.stuck[p] = stuck{found.Stuck, found.Why}
	}
	if errors.Is(err, cgroup.ErrGone) {
		return nil // it has ended
	}
	return err
}

// forgetStuck forgets threads of cgroups that nothing is wanted of any more.
func (l *loop) forgetStuck() {
	maps.DeleteFunc(l.threads.stuck, func(p cgroup.Path, _ stuck) bool { _, known := l.tree.Current[p]; return !known })
}

func (l *loop) stuckProblems() []pools.Problem {
	var all []pools.Problem
	for at, s := range l.threads.stuck {
		p := pools.Problem{Reason: pools.Reason{Code: codeStuckThreads, Text: s.err(at).Error()}}
		l.nameOwner(&p, at)
		all = append(all, p)
	}
	return all
}
