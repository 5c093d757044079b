package daemon

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeUnitEncloses is the code of units whose cgroup contains somebody who is placed
// for himself.
const codeUnitEncloses pools.Code = "UnitEncloses"

// placeable are the configured pools with those of the units that can be placed. A
// slice around pods, or around another unit of the configuration, cannot have CPUs
// of its own: it would limit them all to these. Those inside go first.
func (s *scene) placeable() pools.Pools {
	p := s.settings.pools
	p.Units = slices.DeleteFunc(slices.Clone(p.Units), func(u pools.UnitSpec) bool { return s.model.encloses(u.Name) != "" })
	return p
}

// placedUnits are the names of the units that are not left alone.
func (l *loop) placedUnits() []string {
	return slices.DeleteFunc(l.settings.unitNames(), func(name string) bool { return l.model.encloses(name) != "" })
}

// encloses says what a unit's cgroup contains that is placed for itself, "" if there
// is nothing.
func (m *model) encloses(unit string) string {
	e := m.units[unit]
	if e == nil || e.unit.Path == "" {
		return ""
	}
	within := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if within(m.units[name].unit.Path) {
			return name
		}
	}
	for _, p := range m.pods {
		if within(p.slice) || within(p.pause) {
			return "pods"
		}
	}
	for _, c := range m.containers {
		if within(c.path) {
			return "pods"
		}
	}
	return ""
}
