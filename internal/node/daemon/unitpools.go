package daemon

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// settleUnits looks at the CPUs of units that are not placed any more, which may be
// on them still. One that has another name in the configuration now takes them
// along; of the others they are given to nobody until they have been reverted, or
// until it is known that they do not exist.
func (l *Loop) settleUnits() {
	names, placed := l.settings.UnitNames(), l.placedUnits()
	maps.DeleteFunc(l.status.away, func(own string, _ bool) bool {
		return l.inventory.ConfiguredAs(placed, own) != "" // it may be there, and get CPUs
	})
	var kept, left, leaving []pools.Assignment
	for _, a := range l.assignments {
		if a.Key.PodUID != "" || slices.Contains(placed, a.Key.Container) {
			kept = append(kept, a)
		} else {
			left = append(left, a)
		}
	}
	for _, a := range left {
		name := a.Key.Container
		own := l.inventory.UnitName(name)
		heir := l.inventory.ConfiguredAs(placed, own)
		switch {
		case l.Units == nil:
		case l.inventory.Unnamed([]string{name}):
			if l.status.asks[name] == nil {
				l.fetchUnit(name)
			}
			leaving = append(leaving, a)
		case heir != "":
			kept = l.settings.Inherit(kept, heir, a)
		case l.inventory.Unnamed(names), l.journal.UnitOriginals()[own] != nil && !l.status.away[own]:
			leaving = append(leaving, a)
		}
	}
	l.status.leaving = leaving
	if len(left) == 0 {
		return
	}
	l.assignments = slices.Concat(kept, leaving)
	l.forgetUnits()
}

// follows says that a unit is of the configuration, or was and may have its CPUs
// still.
func (l *Loop) follows(name string) bool {
	return slices.Contains(l.settings.UnitNames(), name) || !desired.Assigned(l.assignments, inventory.UnitKey(name)).IsEmpty()
}

// forgetUnits drops what is known of units that are not followed.
func (l *Loop) forgetUnits() {
	l.inventory.ForgetUnits(func(name string) bool { return !l.follows(name) })
	maps.DeleteFunc(l.status.asks, func(name string, _ *unitAsk) bool { return !l.follows(name) })
}

// leavingCPUs are those that nobody may have for now: of units that leave, and those
// that the kernel has lost.
func (l *Loop) leavingCPUs() cpuset.Set {
	all := l.isolation.leaked
	for _, cpus := range l.leavingCgroups() {
		all = all.Union(cpus)
	}
	return all
}

// leavingCgroups has the same by the cgroups of those who are to leave.
func (l *Loop) leavingCgroups() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set, len(l.status.leaving))
	for _, a := range l.status.leaving {
		var p cgroup.Path // until systemd has told
		if e := l.inventory.Unit(a.Key.Container); e != nil {
			p = e.Unit.Path
		}
		all[p] = all[p].Union(a.CPUs)
	}
	return all
}

// placedUnits are the names of the units that are not left alone.
func (l *Loop) placedUnits() []string {
	hosts := l.settings.HostUnits()
	encloses := func(name string) bool { return l.inventory.Encloses(name, hosts) != "" }
	return slices.Concat(slices.DeleteFunc(l.settings.PlacedNames(), encloses), slices.DeleteFunc(slices.Clone(hosts), l.leftAlone))
}
