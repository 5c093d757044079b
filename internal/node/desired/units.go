package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// unitTarget is the desired state of a unit's cgroup. One that systemd cannot start
// has none, but keeps its CPUs: it may be installed at any moment.
func unitTarget(u pools.UnitPlan, m *inventory.Inventory) (cgroup.Target, bool) {
	e := m.Unit(u.Name)
	if e == nil || !e.Unit.Loaded() || e.Unit.Path == "" {
		return cgroup.Target{}, false
	}
	return cgroup.Target{
		Path: e.Unit.Path, Unit: e.Unit.Name, CPUs: u.CPUs, Mems: u.Mems, Exclusive: u.Exclusive, Reason: u.Reason.Text,
	}, true
}
