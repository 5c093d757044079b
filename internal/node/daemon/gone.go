package daemon

import (
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// cgroupGone asks the runtime for the owner of a cgroup that is gone. A unit may stop
// and start as it likes; systemd is asked what it will start it with.
func (l *Loop) cgroupGone(p cgroup.Path) {
	l.isolation.memory.Gone(p)
	if name := l.inventory.UnitAt(p); name != "" {
		l.cache.Invalidate(p)
		l.fetchUnit(name)
		return
	}
	if l.status.vanished[p] != "" {
		return
	}
	delete(l.cache.Current, p)
	if id := l.inventory.Container(p); id != "" {
		l.status.vanished[p] = id
		l.fetchContainer(id)
	} else if id := l.inventory.Sandbox(p); id != "" {
		l.status.vanished[p] = id
		l.fetchPod(id)
	}
}

// cgroupBack lets those cgroups of an object be written again that are there. For
// the others the next listing has the word: a runtime in a virtual machine has
// containers without a cgroup here.
func (l *Loop) cgroupBack(id string) {
	maps.DeleteFunc(l.status.vanished, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := l.Cgroups.Read(p)
		return err == nil
	})
}
