package inventory

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Units holds the systemd units of the configuration, which may call a unit by an alias. After an
// error the values of a unit may be old.
type Units struct {
	objects *Objects
	known   map[string]*lookup.UnitStatus // by the name in the configuration
	// recovered holds the units that recovery has examined.
	recovered map[string]bool
}

// PutUnit applies the answer to lookup.FetchUnit. Without an answer the last one stays.
func (m *Inventory) PutUnit(f lookup.UnitStatus) {
	known := m.objects.units.known
	if old := known[f.Name]; old != nil && f.Err != nil {
		f.Unit, f.Files = old.Unit, old.Files
	}
	known[f.Name] = &f
}

// ForgetUnits drops the units for whose configured names drop returns true.
func (m *Inventory) ForgetUnits(drop func(name string) bool) {
	u := m.objects.units
	maps.DeleteFunc(u.known, func(name string, _ *lookup.UnitStatus) bool { return drop(name) })
	maps.DeleteFunc(u.recovered, func(name string, _ bool) bool { return drop(name) })
}

// Get returns the unit that the configuration calls name, nil if systemd has not been
// asked for it.
func (u *Units) Get(name string) *lookup.UnitStatus { return u.known[name] }

// NameOf returns a unit's own name, or the configured name as long as systemd has not
// answered.
func (u *Units) NameOf(configured string) string {
	if e := u.known[configured]; e != nil && e.Unit.Name != "" {
		return e.Unit.Name
	}
	return configured
}

// At returns the configured name of the unit with the present or future cgroup p, or "".
func (u *Units) At(p cgroup.Path) string {
	for name, e := range u.known {
		if e.Unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// ConfiguredAs returns the configured name that stands for the unit with the name own, or
// "".
func (u *Units) ConfiguredAs(configured []string, own string) string {
	i := slices.IndexFunc(configured, func(name string) bool { return name == own || u.NameOf(name) == own })
	if i < 0 {
		return ""
	}
	return configured[i]
}

// HasUnnamed reports whether systemd has not answered yet for which unit one of the
// configured names stands.
func (u *Units) HasUnnamed(configured []string) bool {
	return slices.ContainsFunc(configured, func(name string) bool {
		e := u.known[name]
		return e == nil || e.Unit.Name == ""
	})
}

// CanPlace reports whether the daemon may place a unit. Systemd must not make it a cpuset
// partition, and its cgroup must not enclose others: see Encloses.
func (u *Units) CanPlace(unit string, hosts []string) bool {
	e := u.known[unit]
	return (e == nil || e.Unit.Partition == "") && u.Encloses(unit, hosts) == ""
}

// Encloses returns an object whose cgroup is below the cgroup of a unit: another unit of the
// configuration, or "pods" for any pod, or "". Units of host services (hosts) do not count.
func (u *Units) Encloses(unit string, hosts []string) string {
	e := u.known[unit]
	if e == nil || e.Unit.Path == "" {
		return ""
	}
	isBelow := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.Unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(u.known)) {
		if isBelow(u.known[name].Unit.Path) && !slices.Contains(hosts, name) {
			return name
		}
	}
	if slices.ContainsFunc(u.objects.PodCgroups(), isBelow) {
		return "pods"
	}
	return ""
}
