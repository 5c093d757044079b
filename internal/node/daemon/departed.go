package daemon

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// dropOriginals drops the originals of cgroups that the watcher has seen go, so that the next save of
// the journal does not write them again. Nothing is saved for that: to restore, who is gone is
// gone. Another cgroup of the name, such as of a pod that the kubelet makes anew, mostly has its
// own noted by the first write to it; where it was known before this, it has those of the first.
// What is not certain yet waits for a later pass, and for the resync at the latest: who is to
// come, or was there when it was last looked for, and whose partition has not been settled, of
// which the journal tells what is to be trimmed.
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

// removalCheck returns what says that a cgroup is gone for good. Only the owner's own reading
// tells: a listing of the runtime can be older than a cgroup.
func (l *Loop) removalCheck() func(cgroup.Path) bool {
	expected := make(map[cgroup.Path]bool) // few at a time
	for e := range l.inventory.Containers() {
		if e.Container.State == cri.Created {
			expected[e.Path] = true // it has no cgroup yet
		}
	}
	return func(p cgroup.Path) bool {
		if l.cache.Has(p) || expected[p] || l.untrimmed(p) { // nearly all are there
			return false
		}
		_, err := l.Cgroups.Read(p)
		return errors.Is(err, cgroup.ErrGone)
	}
}

// prune forgets the originals of cgroups that are gone.
func (l *Loop) prune() {
	gone := l.removalCheck()
	clear(l.departed)
	l.journal.Forget(gone)
	l.backoffs.Forget(gone)
	l.exposureMeter.forget(gone)
	there := make(map[string]bool)
	for p := range l.inventory.Pods() {
		there[p.UID] = true
	}
	l.hints.Forget(there)
	maps.DeleteFunc(l.pendingUpdates.failed, func(id string, _ bool) bool { return l.inventory.Container(id) == nil })
}

// cgroupGone asks the runtime for the owner of a cgroup that is gone. A unit may stop
// and start as it likes; systemd is asked what it will start it with.
func (l *Loop) cgroupGone(p cgroup.Path) {
	l.isolation.memory.Gone(p)
	if name := l.inventory.UnitAt(p); name != "" {
		l.cache.Invalidate(p)
		l.fetchUnit(name)
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

// cgroupBack lets those cgroups of an object be written again that are there. For
// the others the next listing has the word: a runtime in a virtual machine has
// containers without a cgroup here.
func (l *Loop) cgroupBack(id string) {
	maps.DeleteFunc(l.status.removed, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := l.Cgroups.Read(p)
		return err == nil
	})
}
