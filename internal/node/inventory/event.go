package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Event applies an event of the runtime. It returns the sandbox and the container that the
// caller must fetch next, and the cgroup of a known container that has started. Each result
// can be empty.
func (m *Inventory) Event(e cri.Event) (sandbox, container string, started cgroup.Path) {
	id := e.ContainerID
	if p := m.pods[id]; p != nil {
		switch e.Kind {
		case cri.ContainerCreated:
			if p.presence == answered {
				return id, "", ""
			}
		case cri.ContainerStopped:
			p.Pod.Ready = false
		case cri.ContainerDeleted:
			m.dropUnconfirmed(id)
			m.remove(id)
			m.unlist(id)
		}
		return "", "", ""
	}
	if c := m.containers[id]; c != nil {
		switch e.Kind {
		case cri.ContainerCreated:
			if c.presence == answered {
				return "", id, "" // for the values that the runtime has recorded
			}
		case cri.ContainerStarted:
			c.advance(cri.Running)
			return "", "", c.Path
		case cri.ContainerStopped:
			c.advance(cri.Exited)
			if c.Container.FinishedAt.IsZero() {
				c.Container.FinishedAt = e.At
				c.end(e.At, m.now())
			}
		case cri.ContainerDeleted:
			m.remove(id)
		}
		return "", "", ""
	}
	switch {
	case e.Kind == cri.ContainerDeleted:
		m.remove(id)
		return "", "", ""
	case e.Kind == cri.ContainerStopped: // of an unknown object, which is over
		return "", "", ""
	case id == e.PodID:
		return id, "", ""
	case m.pods[e.PodID] == nil:
		return e.PodID, id, ""
	}
	return "", id, ""
}
