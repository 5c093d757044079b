package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func UnitKey(name string) pools.Key { return pools.Key{Container: name} }

// Encloses says what a unit's cgroup contains that is placed for itself, "" if there
// is nothing. Units of host services (hosts) are not.
func (m *Inventory) Encloses(unit string, hosts []string) string {
	e := m.units[unit]
	if e == nil || e.Unit.Path == "" {
		return ""
	}
	within := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.Unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if within(m.units[name].Unit.Path) && !slices.Contains(hosts, name) {
			return name
		}
	}
	if slices.ContainsFunc(m.PodCgroups(), within) {
		return "pods"
	}
	return ""
}

// Unnamed says that systemd has not told yet which unit one of the names is.
func (m *Inventory) Unnamed(configured []string) bool {
	return slices.ContainsFunc(configured, func(name string) bool {
		e := m.units[name]
		return e == nil || e.Unit.Name == ""
	})
}

// ConfiguredAs is what the configuration calls a unit, "" if it does not name it.
func (m *Inventory) ConfiguredAs(configured []string, own string) string {
	i := slices.IndexFunc(configured, func(name string) bool { return name == own || m.UnitName(name) == own })
	if i < 0 {
		return ""
	}
	return configured[i]
}

// Unit is a systemd unit of the configuration.
type Unit struct {
	Unit  cgroup.Unit
	Files hostslices.Setting // what an administrator's files say
	Err   error              // systemd could not be asked; what is in unit may be old
	// considered says that its CPUs have been recovered, if it had any.
	considered bool
}

// UnitStatus is what systemd says of a unit.
type UnitStatus struct {
	Name  string
	Unit  cgroup.Unit
	files hostslices.Setting
	Err   error
}

// PutUnit takes over what systemd says. Without an answer the last one stands.
func (m *Inventory) PutUnit(f UnitStatus) {
	e := &Unit{Unit: f.Unit, Files: f.files, Err: f.Err}
	if old := m.units[f.Name]; old != nil {
		e.considered = old.considered
		if f.Err != nil {
			e.Unit, e.Files = old.Unit, old.Files
		}
	}
	m.units[f.Name] = e
}

// UnitName is a unit's own name, which may differ from the configuration's.
func (m *Inventory) UnitName(configured string) string {
	if e := m.units[configured]; e != nil && e.Unit.Name != "" {
		return e.Unit.Name
	}
	return configured
}

// UnitAt returns the configured name of the unit whose cgroup p is, or will be; ""
// if it is none's.
func (m *Inventory) UnitAt(p cgroup.Path) string {
	for name, e := range m.units {
		if e.Unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// Record is what systemd would put back, or start the unit with.
func (e *Unit) Record() cgroup.Current {
	return cgroup.Current{Unit: e.Unit.UnitState, Recorded: e.Unit.CPUs, RecordedKnown: e.Err == nil && e.Unit.Known}
}

// ForgetUnits drops the units whose configured names are to be dropped.
func (m *Inventory) ForgetUnits(drop func(name string) bool) {
	maps.DeleteFunc(m.units, func(name string, _ *Unit) bool { return drop(name) })
}
