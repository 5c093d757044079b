package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Inventory takes the reports about pods, containers and units. Objects returns the result.
// It is not safe for concurrent use.
type Inventory struct {
	clock
	objects *Objects
	driver  cgroup.Driver

	watchedSince time.Time // zero before the first listing
	listings     int       // number of merged listings
}

// New returns an inventory without objects.
func New(d cgroup.Driver) *Inventory {
	o := &Objects{
		pods:       make(map[string]*Pod),
		containers: make(map[string]*Container),
		sandboxes:  make(map[string]map[string]*Pod),
		within:     make(map[string]map[string]*Container),
	}
	o.units = &Units{objects: o, known: make(map[string]*lookup.UnitStatus), recovered: make(map[string]bool)}
	return &Inventory{clock: clock{now: time.Now, changes: betweenUpdates + 1, removed: make(map[string]removal)}, objects: o, driver: d}
}

// Objects returns the pods, containers and units. The result changes with the inventory.
func (m *Inventory) Objects() *Objects { return m.objects }

// BeginWatch ends the first listing: recovery has looked at all objects of the inventory,
// and the daemon sees the creation of each later container.
func (m *Inventory) BeginWatch(now time.Time) {
	m.TakeUnrecovered()
	m.watchedSince = now
}

// TakeUnrecovered returns the units, and the owners of containers that may be exclusive, that
// recovery has not looked at. It marks them as recovered. Objects without details stay for a
// later call.
func (m *Inventory) TakeUnrecovered() (owners []pools.Key) {
	for _, e := range m.objects.containers {
		if !e.recovered && e.err == nil && e.Pod() != nil {
			if e.recovered = true; e.MayBeExclusive() {
				owners = append(owners, e.Key())
			}
		}
	}
	u := m.objects.units
	for name, e := range u.known {
		if !u.recovered[name] && e.Unit.Name != "" {
			u.recovered[name] = true
			owners = append(owners, pools.Key{Container: name})
		}
	}
	return owners
}
