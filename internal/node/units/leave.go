package units

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Settle decides about the CPUs of units that the configuration no longer places and that may
// still run on them. It returns the assignments afterwards. A unit with another name in the
// configuration keeps its CPUs. The CPUs of other units stay reserved until the unit is
// reverted, or until systemd reports that it does not exist.
func (u *Units) Settle(assignments []pools.Assignment, now time.Time) []pools.Assignment {
	names, placed := u.Settings.UnitNames(), u.placed()
	maps.DeleteFunc(u.away, func(own string, _ bool) bool {
		return u.known.ConfiguredAs(placed, own) != "" // the unit exists or may come back, and gets CPUs
	})
	var kept, left []pools.Assignment
	for _, a := range assignments {
		if !a.IsUnit() || slices.Contains(placed, a.Container) {
			kept = append(kept, a)
		} else {
			left = append(left, a)
		}
	}
	u.assignments, u.leaving = assignments, nil
	if len(left) == 0 {
		return assignments
	}
	for _, a := range left {
		name := a.Container
		own := u.known.NameOf(name)
		heir := u.known.ConfiguredAs(placed, own)
		switch {
		case u.Host.Units == nil:
		case u.known.HasUnnamed([]string{name}):
			if u.asks[name] == nil {
				u.Ask(name, now)
			}
			u.leaving = append(u.leaving, a)
		case heir != "":
			kept = u.Settings.Inherit(kept, heir, a)
		case u.known.HasUnnamed(names), u.Journal.Originals.OfUnits()[own] != nil && !u.away[own]:
			u.leaving = append(u.leaving, a)
		}
	}
	u.assignments = slices.Concat(kept, u.leaving)
	u.forget()
	return u.assignments
}

// Assign records the assignments of a plan, so that the daemon follows their units. It returns them
// with the assignments of units that leave, which are not part of a plan.
func (u *Units) Assign(planned []pools.Assignment) []pools.Assignment {
	u.assignments = append(slices.Clip(planned), u.leaving...)
	return u.assignments
}

// Leaving returns the reserved CPUs of units that leave, by cgroup; "" before systemd's answer.
func (u *Units) Leaving() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set, len(u.leaving))
	for _, a := range u.leaving {
		var p cgroup.Path
		if e := u.known.Get(a.Container); e != nil {
			p = e.Unit.Path
		}
		all[p] = all[p].Union(a.CPUs)
	}
	return all
}
