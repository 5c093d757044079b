package inventory

import (
	"slices"
)

// Unnamed says that systemd has not told yet which unit one of the names is.
func (m *Inventory) Unnamed(configured []string) bool {
	return slices.ContainsFunc(configured, func(name string) bool {
		e := m.Units[name]
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
