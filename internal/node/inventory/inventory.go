package inventory

import (
	"iter"
	"maps"
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
	now        func() time.Time
	Clock      int                   // counts changes, to tell old listings from new entries
	pods       map[string]*Pod       // by sandbox id
	containers map[string]*Container // by container id
	// sandboxes are the pods by UID and sandbox id, and within the containers by sandbox
	// and container id: see members.go.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container
	units     map[string]*Unit // by the name in the configuration
	Removed   map[string]int   // when a container or sandbox was deleted, on clock
	// Started is when the daemon began to watch; zero before the first listing is
	// in. What is made later, the daemon sees being made.
	Started time.Time
	// AsksFirst says that the runtime asks before it starts a container (NRI).
	AsksFirst bool
}

func New(d cgroup.Driver) *Inventory {
	return &Inventory{
		driver: d, now: time.Now, pods: make(map[string]*Pod), containers: make(map[string]*Container), units: make(map[string]*Unit), Removed: make(map[string]int),
		sandboxes: make(map[string]map[string]*Pod), within: make(map[string]map[string]*Container),
	}
}

// UseClock replaces the clock, which is time.Now after New.
func (m *Inventory) UseClock(now func() time.Time) { m.now = now }

// Merge takes over the pods and containers of a complete listing. Entries that are newer
// than the listing are left alone; details of known entries are kept.
func (m *Inventory) Merge(l Listing) {
	seen := make(map[string]bool, len(l.Pods)+len(l.Containers)+len(l.Known.Pods)+len(l.Known.Containers))
	pod := func(p PodStatus) {
		if m.Outdated(p.ID, l.AsOf) {
			return
		}
		seen[p.ID] = true
		old := m.pods[p.ID]
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
		old := m.containers[c.ID]
		switch {
		case c.Detailed, old == nil && c.Partial != nil:
			m.PutContainer(c)
			if old == nil && c.State == cri.Running {
				m.containers[c.ID].FoundBy(telemetry.WayResync)
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
	now := m.now()
	for id, e := range m.containers {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.DropContainer(id)
		}
	}
	for id, e := range m.pods {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.Unlist(id)
		}
	}
	for _, e := range m.containers {
		// The pod of one that is newer than the listing is being asked for.
		if id := e.Container.PodID; seen[e.Container.ID] && id != "" && m.pods[id] == nil {
			m.Unlist(id)
		}
	}
	m.ForgetRemoved(l.AsOf)
}

// Container returns the container with an id, nil if the inventory does not have it.
func (m *Inventory) Container(id string) *Container { return m.containers[id] }

// Containers returns all containers, in no order.
func (m *Inventory) Containers() iter.Seq[*Container] { return maps.Values(m.containers) }

// Pod returns the pod whose sandbox has an id, nil if the inventory does not have it.
func (m *Inventory) Pod(sandbox string) *Pod { return m.pods[sandbox] }

// PodOf returns the pod of a container, nil if the inventory does not have it.
func (m *Inventory) PodOf(e *Container) *Pod { return m.pods[e.Container.PodID] }

// Pods returns the pods of all sandboxes, in no order.
func (m *Inventory) Pods() iter.Seq[*Pod] { return maps.Values(m.pods) }

// Unit returns the unit that the configuration calls name, nil if systemd has not been
// asked for it.
func (m *Inventory) Unit(name string) *Unit { return m.units[name] }

// Len returns the number of sandboxes and of containers.
func (m *Inventory) Len() (sandboxes, containers int) { return len(m.pods), len(m.containers) }

// KnownIDs returns the pods and containers whose details need not be asked for
// again.
func (m *Inventory) KnownIDs() map[string]bool {
	known := make(map[string]bool, len(m.pods)+len(m.containers))
	for id, e := range m.pods {
		known[id] = e.Err == nil && !e.Unlisted && !e.Unconfirmed
	}
	for id, e := range m.containers {
		// When it finished tells which kind it was.
		ended := e.Container.State == cri.Exited && e.Container.FinishedAt.IsZero()
		known[id] = e.Err == nil && !ended && !e.Unconfirmed
	}
	return known
}
