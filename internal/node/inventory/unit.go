package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Unit is a systemd unit of the configuration. The configuration may call it by an alias.
type Unit struct {
	Unit  systemd.Unit
	Files hostslices.Setting // CPUs in the unit files of an administrator
	Err   error              // systemd did not answer; Unit and Files may be old

	recovered bool // recovery has looked for exclusive CPUs of the unit
}

// PutUnit applies the answer to lookup.FetchUnit. Without an answer the last one stays.
func (m *Inventory) PutUnit(f lookup.UnitStatus) {
	e := &Unit{Unit: f.Unit, Files: f.Files, Err: f.Err}
	if old := m.units[f.Name]; old != nil {
		e.recovered = old.recovered
		if f.Err != nil {
			e.Unit, e.Files = old.Unit, old.Files
		}
	}
	m.units[f.Name] = e
}

// ForgetUnits drops the units for whose configured names drop returns true.
func (m *Inventory) ForgetUnits(drop func(name string) bool) {
	maps.DeleteFunc(m.units, func(name string, _ *Unit) bool { return drop(name) })
}

// Record returns the values with which systemd would start the unit or write its cgroup
// again.
func (e *Unit) Record() cgroup.Current {
	return cgroup.Current{Unit: e.Unit.UnitState, Recorded: e.Unit.CPUs, RecordedKnown: e.Err == nil && e.Unit.Known}
}

// UnitName returns a unit's own name, or the configured name as long as systemd has not
// answered.
func (m *Inventory) UnitName(configured string) string {
	if e := m.units[configured]; e != nil && e.Unit.Name != "" {
		return e.Unit.Name
	}
	return configured
}

// UnitAt returns the configured name of the unit whose cgroup is, or will be, p, or "".
func (m *Inventory) UnitAt(p cgroup.Path) string {
	for name, e := range m.units {
		if e.Unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// ConfiguredAs returns the configured name that stands for the unit with the name own, or
// "".
func (m *Inventory) ConfiguredAs(configured []string, own string) string {
	i := slices.IndexFunc(configured, func(name string) bool { return name == own || m.UnitName(name) == own })
	if i < 0 {
		return ""
	}
	return configured[i]
}

// HasUnnamed reports whether systemd has not answered yet for which unit one of the
// configured names stands.
func (m *Inventory) HasUnnamed(configured []string) bool {
	return slices.ContainsFunc(configured, func(name string) bool {
		e := m.units[name]
		return e == nil || e.Unit.Name == ""
	})
}

// CanPlace reports whether the daemon may place a unit. Systemd must not make it a cpuset
// partition, and its cgroup must not enclose others: see Encloses.
func (m *Inventory) CanPlace(unit string, hosts []string) bool {
	e := m.units[unit]
	return (e == nil || e.Unit.Partition == "") && m.Encloses(unit, hosts) == ""
}

// Encloses returns an object whose cgroup is below the cgroup of a unit: another unit of the
// configuration, or "pods" for any pod, or "". Units of host services (hosts) do not count.
func (m *Inventory) Encloses(unit string, hosts []string) string {
	e := m.units[unit]
	if e == nil || e.Unit.Path == "" {
		return ""
	}
	isBelow := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.Unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if isBelow(m.units[name].Unit.Path) && !slices.Contains(hosts, name) {
			return name
		}
	}
	if slices.ContainsFunc(m.PodCgroups(), isBelow) {
		return "pods"
	}
	return ""
}
