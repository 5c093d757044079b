package inventory

import (
	"iter"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Inventory holds the pods, containers and units of the node. It is not safe for concurrent
// use.
type Inventory struct {
	driver     cgroup.Driver
	now        func() time.Time
	clock      int                   // 1 plus the number of changes; see removed.go
	pods       map[string]*Pod       // by sandbox id
	containers map[string]*Container // by container id
	units      map[string]*Unit      // by the name in the configuration
	removed    map[string]removal    // by sandbox or container id
	// sandboxes holds the pods by UID and sandbox id, within holds the containers by sandbox
	// id and container id: see setContainer.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container

	watchedSince time.Time // zero before the first listing
	listings     int       // number of merged listings
	hasNRI       bool
}

// betweenUpdates is the AsOf of a question that runs in the queue of the container's updates.
const betweenUpdates = 0

// New returns an inventory without objects.
func New(d cgroup.Driver) *Inventory {
	return &Inventory{
		driver:     d,
		now:        time.Now,
		clock:      betweenUpdates + 1,
		pods:       make(map[string]*Pod),
		containers: make(map[string]*Container),
		units:      make(map[string]*Unit),
		removed:    make(map[string]removal),
		sandboxes:  make(map[string]map[string]*Pod),
		within:     make(map[string]map[string]*Container),
	}
}

// UseClock replaces the clock, which is time.Now after New.
func (m *Inventory) UseClock(now func() time.Time) { m.now = now }

// Container returns the container with an id, or nil.
func (m *Inventory) Container(id string) *Container { return m.containers[id] }

// Containers returns all containers in no order.
func (m *Inventory) Containers() iter.Seq[*Container] { return maps.Values(m.containers) }

// Pod returns the pod whose sandbox has an id, or nil.
func (m *Inventory) Pod(sandbox string) *Pod { return m.pods[sandbox] }

// PodOf returns the pod of a container, nil if it is unknown.
func (m *Inventory) PodOf(e *Container) *Pod { return m.pods[e.Container.PodID] }

// Pods returns the pods of all sandboxes in no order.
func (m *Inventory) Pods() iter.Seq[*Pod] { return maps.Values(m.pods) }

// Unit returns the unit that the configuration calls name, nil if systemd has not been
// asked for it.
func (m *Inventory) Unit(name string) *Unit { return m.units[name] }

// Len returns the number of sandboxes and of containers.
func (m *Inventory) Len() (sandboxes, containers int) { return len(m.pods), len(m.containers) }

// Each event about a pod looks up its members, and a search through all objects would cost
// too much on a full node. So containers are also kept by sandbox, and sandboxes by UID.

func (m *Inventory) setContainer(id string, e *Container) {
	m.dropContainer(id)
	m.containers[id] = e
	group(m.within, e.Container.PodID, id, e)
}

func (m *Inventory) dropContainer(id string) {
	if e := m.containers[id]; e != nil {
		delete(m.containers, id)
		ungroup(m.within, e.Container.PodID, id)
	}
}

func (m *Inventory) setPod(id string, e *Pod) {
	m.dropPod(id)
	m.pods[id] = e
	group(m.sandboxes, e.UID, id, e)
}

func (m *Inventory) dropPod(id string) {
	if e := m.pods[id]; e != nil {
		delete(m.pods, id)
		ungroup(m.sandboxes, e.UID, id)
	}
}

// Members returns the containers of all sandboxes of a pod in no order. Without a known
// sandbox uid is a sandbox id, as in KeyOf.
func (m *Inventory) Members(uid string) iter.Seq[*Container] {
	sandboxes := m.sandboxes[uid]
	if len(sandboxes) == 0 {
		return maps.Values(m.within[uid])
	}
	return func(yield func(*Container) bool) {
		for id := range sandboxes {
			for _, e := range m.within[id] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func group[E any](groups map[string]map[string]E, of, id string, e E) {
	if groups[of] == nil {
		groups[of] = make(map[string]E)
	}
	groups[of][id] = e
}

func ungroup[E any](groups map[string]map[string]E, of, id string) {
	if delete(groups[of], id); len(groups[of]) == 0 {
		delete(groups, of)
	}
}

// BeginWatch ends the first listing: recovery has looked at all objects of the inventory,
// and the daemon sees the creation of each later container.
func (m *Inventory) BeginWatch(now time.Time) {
	m.TakeUnrecovered()
	m.watchedSince = now
}

// TakeUnrecovered returns the containers and units that recovery has not looked at, and
// marks them as recovered. Objects without details stay for a later call.
func (m *Inventory) TakeUnrecovered() (containers []*Container, units []pools.Key) {
	for _, e := range m.containers {
		if !e.recovered && e.err == nil && m.PodOf(e) != nil {
			e.recovered = true
			containers = append(containers, e)
		}
	}
	for name, e := range m.units {
		if !e.recovered && e.Unit.Name != "" {
			e.recovered = true
			units = append(units, pools.Key{Container: name})
		}
	}
	return containers, units
}
