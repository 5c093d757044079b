package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// silentTree is a tree without notices of writes.
type silentTree struct{ cgroup.Tree }

// TestResync checks that the resync finds changes without an event, also while the runtime does
// not answer. The pass waits for the list, but not for a late one. In between events are
// handled as usual.
func TestResync(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		n := newNode(t)
		h := n.Host()
		h.Cgroups = cgroup.New(silentTree{n.Tree})
		r := n.startOn(h)
		id := n.RunContainer(n.RunPod("a", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
		n.AwaitCPUs(id, "2-3")
		r.quiet()
		r.awaitIdle()
		release := func() {}
		if hangs {
			release = n.Runtime.Hang("ListContainers")
		}
		if err := n.Tree.Write(n.Runtime.Cgroup(id)+"/"+cgroup.FileCPUs, "5"); err != nil {
			t.Fatal(err)
		}
		r.inspectOnly(func(l *Loop) {
			now := l.now().Add(l.settings.Config.ResyncPeriod)
			if l.resync(now); !l.schedule.listings.IsBusy() || !l.schedule.recheck.Due.After(l.now()) {
				t.Errorf("listing %t, and in %v all is read", l.schedule.listings.IsBusy(), l.schedule.recheck.Due.Sub(l.now()))
			}
			if l.cache.HasStale() || l.schedule.isDue() {
				t.Errorf("stale cgroups: %t, schedule %+v: a pass of its own", l.cache.HasStale(), l.schedule)
			}
		})
		n.AwaitCPUs(id, "2-3")
		release()
		r.awaitIdle()
		r.inspect(func(l *Loop) {
			if l.schedule.listings.Scan() || l.schedule.recheck.Due.After(l.now()) {
				t.Errorf("hangs %t: another look is due", hangs)
			}
		})
		r.stop()
	}
}
