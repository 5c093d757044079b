package daemon

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// lossyTree is a tree that loses notices of writes without an error.
type lossyTree struct {
	*testnode.Cgroups
	loses atomic.Bool
}

func (m *lossyTree) Notify() (cgroup.Notices, error) {
	n, err := m.Cgroups.Notify()
	return lossyNotices{n, m}, err
}

type lossyNotices struct {
	cgroup.Notices
	by *lossyTree
}

func (n lossyNotices) Next() (cgroup.Notice, error) {
	for {
		notice, err := n.Notices.Next()
		if err != nil || notice.Kind != cgroup.Written || !n.by.loses.Load() {
			return notice, err
		}
	}
}

// TestRecheck checks that the resync finds writes without a notice: of a cgroup that is not watched at
// once, of others within the turns of kernelstate.Cache.Recheck.
func TestRecheck(t *testing.T) {
	for name, c := range map[string]struct {
		deaf  bool
		turns int
	}{
		"watched":     {turns: 8},
		"not watched": {turns: 1, deaf: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			h, tree := n.Host(), &lossyTree{Cgroups: n.Tree}
			if h.Cgroups = cgroup.New(tree); c.deaf {
				h.Cgroups = cgroup.New(struct {
					cgroup.Tree
					cgroup.Threads
				}{n.Tree, n.Tree})
			}
			r := n.startOn(h)
			shared := n.RunContainer(n.RunPod("pod", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.AwaitCPUs(shared, "2-3")
			weighed := n.RunContainer(n.RunPod("weighed", "kube-system", "burstable", 0, nodefixture.Management(map[string]int{"app": 512})), "app", cri.Resources{Shares: 512})
			n.AwaitCPUs(weighed, "0-1")
			r.quiet()
			r.awaitIdle()
			r.inspect(func(l *Loop) { l.settings.Config.ResyncPeriod = 30 * time.Second })
			recheck := func(n int) {
				for range n {
					r.inspect(func(l *Loop) { l.schedule.listings.ScheduleScan(l.now(), 0) }) // the next pass rechecks
					r.inspect(func(*Loop) {})
				}
			}
			tree.loses.Store(true)
			write := func(id, file, value string) {
				t.Helper()
				if err := n.Tree.Write(n.Runtime.Cgroup(id)+"/"+file, value); err != nil {
					t.Fatal(err)
				}
			}
			weight := n.State(weighed).Weight
			write(shared, cgroup.FileCPUs, "5")
			write(weighed, cgroup.FileWeight, "7")
			recheck(1)
			n.AwaitCPUs(shared, "2-3")
			recheck(c.turns - 1)
			n.Eventually("its weight", func() bool { return n.State(weighed).Weight == weight })
			r.stop()
		})
	}
}

// TestToldOf checks that crun's cgroup in a container has its own watch, and that without this
// watch the cache trusts no notice of the container.
func TestToldOf(t *testing.T) {
	n := newNode(t)
	id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	inner := n.MakeInnerCgroup(id, "0-7", "max 100000")
	r := n.start()
	n.AwaitCPUs(id, "2-3")
	r.quiet()
	r.inspect(func(l *Loop) {
		told := func(what string, s cgroup.State, want bool) {
			if got := l.notices.Tree.IsWatched(s); got != want {
				t.Errorf("%s: told %t, want %t", what, got, want)
			}
		}
		s := n.State(id)
		told("a container with crun's cgroup", s, true)
		told("crun's", cgroup.State{Path: inner}, true)
		told("its pod", cgroup.State{Path: s.Path.Parent().Parent()}, false)
		s.Inner = &cgroup.State{Path: s.Path.Join("another")}
		told("with one that is not watched", s, false)
		s.Inner = nil
		watcher := l.notices.Tree.Watcher()
		l.notices.Tree.Use(watcher, syscall.ENOSPC)
		told("a watch is missing", s, false)
		l.notices.Tree.Use(watcher, nil)
		told("it is there again", s, true)
	})
	r.stop()
}
