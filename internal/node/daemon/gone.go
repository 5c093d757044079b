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
	l.cache.Forget(p)
	if c := l.inventory.ContainerAt(p); c != nil {
		l.status.vanished[p] = c.Container.ID
		l.fetchContainer(c.Container.ID)
	} else if pod := l.inventory.PodAt(p); pod != nil {
		l.status.vanished[p] = pod.Pod.ID
		l.fetchPod(pod.Pod.ID)
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
