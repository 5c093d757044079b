package daemon

import (
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// vanish asks the runtime for the owner of a cgroup that is gone. A unit may stop
// and start as it likes; systemd is asked what it will start it with.
func (l *loop) vanish(p cgroup.Path) {
	l.isolation.memory.Gone(p)
	if name := l.model.unitAt(p); name != "" {
		l.tree.distrust(p)
		l.fetchUnit(name)
		return
	}
	if l.status.vanished[p] != "" {
		return
	}
	delete(l.tree.current, p)
	if id := l.model.container(p); id != "" {
		l.status.vanished[p] = id
		l.fetchContainer(id)
	} else if id := l.model.sandbox(p); id != "" {
		l.status.vanished[p] = id
		l.fetchPod(id)
	}
}

// reappear lets those cgroups of an object be written again that are there. For
// the others the next listing has the word: a runtime in a virtual machine has
// containers without a cgroup here.
func (l *loop) reappear(id string) {
	maps.DeleteFunc(l.status.vanished, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := l.cgroups.Read(p)
		return err == nil
	})
}
