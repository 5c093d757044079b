package daemon

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// prune drops the state of removed cgroups and pods.
func (l *Loop) prune() {
	gone := l.removed.Prune()
	l.backoffs.Forget(gone)
	l.exposureMeter.Forget(gone)
	there := make(map[string]bool)
	for p := range l.inventory.Pods() {
		there[p.UID] = true
	}
	l.hints.Forget(there)
	l.requests.Forget()
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
	container, sandbox := l.removed.NoteMissing(p)
	if container != "" {
		l.fetchContainer(container)
	} else if sandbox != "" {
		l.fetchPod(sandbox)
	}
}
