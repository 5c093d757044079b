package inventory

import (
	"iter"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// InfraName is the name of the pause container, as CRI-O calls it. No container of a pod's
// spec has it: upper case is not allowed there.
const InfraName = "POD"

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
	// id and container id: see members.go.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container

	watchedSince time.Time // zero before the first listing
	listings     int       // number of merged listings
	hasNRI       bool
}

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
