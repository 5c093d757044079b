package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

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
