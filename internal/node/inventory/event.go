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
	pod, c := m.objects.pods[id], m.objects.containers[id]
	switch {
	case e.Kind == cri.ContainerDeleted:
		m.noteRemoved(id)
		if m.objects.dropContainer(id); pod != nil {
			m.objects.dropUnconfirmed(m.objects.within[id], func(*Container) bool { return true })
			m.unlist(id)
		}
	case e.Kind == cri.ContainerStopped && pod != nil:
		pod.Pod.Ready = false
	case e.Kind == cri.ContainerStopped && c != nil:
		c.advance(cri.Exited)
		if c.Container.FinishedAt.IsZero() {
			c.Container.FinishedAt = e.At
			c.end(e.At, m.now())
		}
	case e.Kind == cri.ContainerStopped: // of an unknown object, which is over
	case pod != nil && e.Kind == cri.ContainerCreated && pod.presence == answered:
		sandbox = id
	case c != nil && e.Kind == cri.ContainerCreated && c.presence == answered:
		container = id // for the values that the runtime has recorded
	case c != nil && e.Kind == cri.ContainerStarted:
		c.advance(cri.Running)
		started = c.Path
	case pod != nil, c != nil:
	case id == e.PodID:
		sandbox = id
	case m.objects.pods[e.PodID] == nil:
		sandbox, container = e.PodID, id
	default:
		container = id
	}
	return sandbox, container, started
}
