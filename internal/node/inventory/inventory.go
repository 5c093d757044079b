package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// InfraName is the pause container's name, as CRI-O calls it. A container of a
// pod's spec cannot have it: upper case is not allowed there.
const InfraName = "POD"

// Inventory is what the runtime has told about the node. What a container is does
// not change after its creation, so it is asked for once.
type Inventory struct {
	driver     cgroup.Driver
	Clock      int                   // counts changes, to tell old listings from new entries
	Pods       map[string]*Pod       // by sandbox id
	Containers map[string]*Container // by container id
	// sandboxes are the pods by UID and sandbox id, and within the containers by sandbox
	// and container id: see members.go.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container
	Units     map[string]*Unit // by the name in the configuration
	Removed   map[string]int   // when a container or sandbox was deleted, on clock
	// Started is when the daemon began to watch; zero before the first listing is
	// in. What is made later, the daemon sees being made.
	Started time.Time
	// AsksFirst says that the runtime asks before it starts a container (NRI).
	AsksFirst bool
}

func New(d cgroup.Driver) *Inventory {
	return &Inventory{
		driver: d, Pods: make(map[string]*Pod), Containers: make(map[string]*Container), Units: make(map[string]*Unit), Removed: make(map[string]int),
		sandboxes: make(map[string]map[string]*Pod), within: make(map[string]map[string]*Container),
	}
}

// Merge takes over the pods and containers of a complete listing. Entries that are newer
// than the listing are left alone; details of known entries are kept.
func (m *Inventory) Merge(l Listing) {
	seen := make(map[string]bool, len(l.Pods)+len(l.Containers)+len(l.Known.Pods)+len(l.Known.Containers))
	pod := func(p PodStatus) {
		if m.Outdated(p.ID, l.AsOf) {
			return
		}
		seen[p.ID] = true
		old := m.Pods[p.ID]
		switch {
		case p.Detailed, p.Partial != nil && (old == nil || old.Unlisted):
			m.PutPod(p)
		case old != nil && old.added <= l.AsOf:
			old.Pod.Ready = old.Pod.Ready && p.Ready
		}
		if old != nil {
			old.Unconfirmed = false
		}
	}
	container := func(c ContainerStatus) {
		if m.Outdated(c.ID, l.AsOf) {
			return
		}
		seen[c.ID] = true
		old := m.Containers[c.ID]
		switch {
		case c.Detailed, old == nil && c.Partial != nil:
			m.PutContainer(c)
			if old == nil && c.State == cri.Running {
				m.Containers[c.ID].FoundBy(telemetry.WayResync)
			}
		case old != nil:
			old.Advance(c.State)
			old.Unconfirmed = false
		}
	}
	for i := range l.Pods {
		pod(l.Pods[i])
	}
	for i := range l.Known.Pods {
		pod(PodStatus{Pod: l.Known.Pods[i]})
	}
	for i := range l.Containers {
		container(l.Containers[i])
	}
	for i := range l.Known.Containers {
		container(ContainerStatus{Container: l.Known.Containers[i]})
	}
	now := time.Now()
	for id, e := range m.Containers {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.DropContainer(id)
		}
	}
	for id, e := range m.Pods {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.Unlist(id)
		}
	}
	for _, e := range m.Containers {
		// The pod of one that is newer than the listing is being asked for.
		if id := e.Container.PodID; seen[e.Container.ID] && id != "" && m.Pods[id] == nil {
			m.Unlist(id)
		}
	}
	m.ForgetRemoved(l.AsOf)
}

// KnownIDs returns the pods and containers whose details need not be asked for
// again.
func (m *Inventory) KnownIDs() map[string]bool {
	known := make(map[string]bool, len(m.Pods)+len(m.Containers))
	for id, e := range m.Pods {
		known[id] = e.Err == nil && !e.Unlisted && !e.Unconfirmed
	}
	for id, e := range m.Containers {
		// When it finished tells which kind it was.
		ended := e.Container.State == cri.Exited && e.Container.FinishedAt.IsZero()
		known[id] = e.Err == nil && !ended && !e.Unconfirmed
	}
	return known
}
