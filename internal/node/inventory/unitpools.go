package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func UnitKey(name string) pools.Key { return pools.Key{Container: name} }

// Encloses says what a unit's cgroup contains that is placed for itself, "" if there
// is nothing. Units of host services (hosts) are not.
func (m *Inventory) Encloses(unit string, hosts []string) string {
	e := m.Units[unit]
	if e == nil || e.Unit.Path == "" {
		return ""
	}
	within := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.Unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(m.Units)) {
		if within(m.Units[name].Unit.Path) && !slices.Contains(hosts, name) {
			return name
		}
	}
	if slices.ContainsFunc(m.PodCgroups(), within) {
		return "pods"
	}
	return ""
}
