package daemon

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// threads are those that the kernel has left outside of their cgroup's CPUs.
type threads struct {
	gathered uint64              // since the daemon's start
	stuck    map[cgroup.Path]int // and cannot be brought back
}

func newThreads() threads { return threads{stuck: make(map[cgroup.Path]int)} }

func (t threads) stuckNow() int {
	sum := 0
	for n := range maps.Values(t.stuck) {
		sum += n
	}
	return sum
}

// gather brings the threads of a cgroup back to its CPUs, before anybody is given what
// it has left.
func (l *loop) gather(p cgroup.Path) error {
	found, err := l.cgroups.Gather(p)
	if found.Back > 0 {
		l.threads.gathered += uint64(found.Back)
		l.log.Warn("the kernel had left threads outside of their cgroup's CPUs; they are back", "cgroup", p, "threads", found.Back)
	}
	before := l.threads.stuck[p]
	delete(l.threads.stuck, p)
	if n := len(found.Stuck); n > 0 {
		l.threads.stuck[p] = n
		if n != before {
			l.log.Error("threads run outside of their cgroup's CPUs and cannot be brought back; where the kernel says that the argument is invalid they are workers of io_uring before kernel 6.12: end the process, or have it do without",
				"cgroup", p, "threads", found.Stuck, "error", found.Why)
		}
	}
	if errors.Is(err, cgroup.ErrGone) {
		return nil // it has ended
	}
	return err
}

// gatherRead does so with what was just read, whoever wrote it. A cgroup of which it
// cannot be said is as good as not read.
func (l *loop) gatherRead(unreadable map[cgroup.Path]error) map[cgroup.Path]error {
	for _, p := range l.tree.fresh {
		if err := l.gather(p); err != nil {
			if unreadable == nil {
				unreadable = make(map[cgroup.Path]error)
			}
			unreadable[p] = err
			l.tree.distrust(p)
		}
	}
	l.tree.fresh = nil
	maps.DeleteFunc(l.threads.stuck, func(p cgroup.Path, _ int) bool { _, known := l.tree.current[p]; return !known })
	return unreadable
}
