package inventory

import "github.com/cpupoold/cpupoold/pkg/pools"

// Unconsidered returns the containers and units that recovery has not looked at, and
// takes note that it does now.
func (m *Inventory) Unconsidered() (late []*Container, units []pools.Key) {
	for _, e := range m.containers {
		if !e.Recovered && e.Err == nil && m.pods[e.Container.PodID] != nil {
			e.Recovered = true
			late = append(late, e)
		}
	}
	for name, e := range m.units {
		if !e.considered && e.Unit.Name != "" {
			e.considered = true
			units = append(units, UnitKey(name))
		}
	}
	return late, units
}
