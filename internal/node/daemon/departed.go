package daemon

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// dropOriginals drops the originals of removed cgroups from the journal. The next save omits
// them; they need no save of their own, because restore skips cgroups that do not exist. The
// first write to a new cgroup of the same name records new originals. A later pass, at the
// latest the resync, drops the originals of cgroups that may still exist or whose partition is
// still in the journal.
func (l *Loop) dropOriginals() {
	if len(l.departed) == 0 {
		return
	}
	is, gone := l.removalCheck(), make(map[cgroup.Path]bool)
	maps.DeleteFunc(l.departed, func(p cgroup.Path, _ bool) bool {
		if is(p) {
			gone[p] = true
		}
		return gone[p]
	})
	if len(gone) > 0 {
		l.journal.DropOriginals(func(p cgroup.Path) bool { return gone[p.Scope()] })
	}
}

// removalCheck returns a function that reports whether a cgroup is removed for good. The function
// reads the kernel, because a listing of the runtime can be older than a cgroup.
func (l *Loop) removalCheck() func(cgroup.Path) bool {
	expected := make(map[cgroup.Path]bool) // few at a time
	for e := range l.inventory.Containers() {
		if e.Container.State == cri.Created {
			expected[e.Path] = true // it has no cgroup yet
		}
	}
	return func(p cgroup.Path) bool {
		if l.cache.Has(p) || expected[p] || l.partitions.Untrimmed(p) { // true for nearly all
			return false
		}
		_, err := l.Cgroups.Read(p)
		return errors.Is(err, cgroup.ErrGone)
	}
}

// prune drops the state of removed cgroups and pods.
func (l *Loop) prune() {
	gone := l.removalCheck()
	clear(l.departed)
	l.journal.Forget(gone)
	l.backoffs.Forget(gone)
	l.exposureMeter.Forget(gone)
	there := make(map[string]bool)
	for p := range l.inventory.Pods() {
		there[p.UID] = true
	}
	l.hints.Forget(there)
	maps.DeleteFunc(l.pendingUpdates.failed, func(id string, _ bool) bool { return l.inventory.Container(id) == nil })
}

// cgroupGone fetches the container or pod of a removed cgroup from the runtime. For a unit,
// which may be stopped, it fetches the properties from systemd.
func (l *Loop) cgroupGone(p cgroup.Path) {
	l.partitions.NoteCgroup(p, false)
	if name := l.inventory.UnitAt(p); name != "" {
		l.cache.Invalidate(p)
		l.units.Ask(name, l.now())
		return
	}
	if l.status.removed[p] != "" {
		return
	}
	l.cache.Forget(p)
	if c := l.inventory.ContainerAt(p); c != nil {
		l.status.removed[p] = c.Container.ID
		l.fetchContainer(c.Container.ID)
	} else if pod := l.inventory.PodAt(p); pod != nil {
		l.status.removed[p] = pod.Pod.ID
		l.fetchPod(pod.Pod.ID)
	}
}

// cgroupBack allows writes to the existing cgroups of an object again. The other cgroups wait
// for the next listing: a runtime with virtual machines has containers without a cgroup here.
func (l *Loop) cgroupBack(id string) {
	maps.DeleteFunc(l.status.removed, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := l.Cgroups.Read(p)
		return err == nil
	})
}
