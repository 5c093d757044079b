package daemon

import (
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// codeUnitEncloses is the code of units whose cgroup contains somebody who is placed
// for himself.
const codeUnitEncloses pools.Code = "UnitEncloses"

// placeable are the configured pools with those of the units that can be placed, and
// without the CPUs of units that are about to leave them. A slice around pods, or
// around another unit of the configuration, cannot have CPUs of its own: it would
// limit them all to these. Those inside go first. A unit that systemd has not told
// about gets nothing new: it may be on CPUs that it can keep.
func (s *scene) placeable() pools.Pools {
	p := s.kubelet.beside(s.settings.pools, s.settings.topology.Online)
	p.Units = slices.DeleteFunc(slices.Clone(p.Units), func(u pools.UnitSpec) bool {
		fresh := s.systemd && u.CPUs > 0 && assigned(s.previous, unitKey(u.Name)).IsEmpty() && s.model.unnamed([]string{u.Name})
		return fresh || s.model.encloses(u.Name, s.settings.hostUnits()) != ""
	})
	if s.leaving.IsEmpty() {
		return p
	}
	owned := s.leaving
	for _, a := range s.previous {
		owned = owned.Union(a.CPUs)
	}
	// Where those who leave and other owners have all of a pool, Diff makes it wait:
	// no owner has to give way for it.
	without := func(pool cpuset.Set) cpuset.Set {
		if pool.IsSubsetOf(owned) {
			return pool
		}
		return pool.Difference(s.leaving)
	}
	p.Guaranteed = p.Guaranteed.Difference(s.leaving)
	p.Shared = without(p.Shared)
	p.Partitions = slices.Clone(p.Partitions)
	for i := range p.Partitions {
		p.Partitions[i].CPUs = without(p.Partitions[i].CPUs)
	}
	return p
}

func unitKey(name string) pools.Key { return pools.Key{Container: name} }

// settleUnits looks at the CPUs of units that are not placed any more, which may be
// on them still. One that has another name in the configuration now takes them
// along; of the others they are given to nobody until they have been reverted, or
// until it is known that they do not exist.
func (l *loop) settleUnits() {
	names, placed := l.settings.unitNames(), l.placedUnits()
	maps.DeleteFunc(l.status.away, func(own string, _ bool) bool {
		return l.model.configuredAs(placed, own) != "" // it may be there, and get CPUs
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
		own := l.model.unitName(name)
		heir := l.model.configuredAs(placed, own)
		switch {
		case l.units == nil:
		case l.model.unnamed([]string{name}):
			if l.status.asks[name] == nil {
				l.fetchUnit(name)
			}
			leaving = append(leaving, a)
		case heir != "":
			kept = l.settings.inherit(kept, heir, a)
		case l.model.unnamed(names), l.ledger.units()[own] != nil && !l.status.away[own]:
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

// inherit gives a unit the CPUs that it had by another name.
func (s *settings) inherit(all []pools.Assignment, heir string, a pools.Assignment) []pools.Assignment {
	exclusive := slices.ContainsFunc(s.pools.Units, func(u pools.UnitSpec) bool { return u.Name == heir && u.CPUs > 0 })
	if !exclusive || !assigned(all, unitKey(heir)).IsEmpty() {
		return all
	}
	return append(all, pools.Assignment{Key: unitKey(heir), CPUs: a.CPUs, Away: a.Away})
}

// follows says that a unit is of the configuration, or was and may have its CPUs
// still.
func (l *loop) follows(name string) bool {
	return slices.Contains(l.settings.unitNames(), name) || !assigned(l.assignments, unitKey(name)).IsEmpty()
}

// forgetUnits drops what is known of units that are not followed.
func (l *loop) forgetUnits() {
	maps.DeleteFunc(l.model.units, func(name string, _ *unitEntry) bool { return !l.follows(name) })
	maps.DeleteFunc(l.status.asks, func(name string, _ *unitAsk) bool { return !l.follows(name) })
}

// leavingCPUs are those that nobody may have for now: of units that leave, and those
// that the kernel has lost.
func (l *loop) leavingCPUs() cpuset.Set {
	all := l.isolation.leaked
	for _, cpus := range l.leavingCgroups() {
		all = all.Union(cpus)
	}
	return all
}

// leavingCgroups has the same by the cgroups of those who are to leave.
func (l *loop) leavingCgroups() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set, len(l.status.leaving))
	for _, a := range l.status.leaving {
		var p cgroup.Path // until systemd has told
		if e := l.model.units[a.Key.Container]; e != nil {
			p = e.unit.Path
		}
		all[p] = all[p].Union(a.CPUs)
	}
	return all
}

// placedUnits are the names of the units that are not left alone.
func (l *loop) placedUnits() []string {
	hosts := l.settings.hostUnits()
	encloses := func(name string) bool { return l.model.encloses(name, hosts) != "" }
	return slices.Concat(slices.DeleteFunc(l.settings.placedNames(), encloses), slices.DeleteFunc(slices.Clone(hosts), l.leftAlone))
}

// encloses says what a unit's cgroup contains that is placed for itself, "" if there
// is nothing. Units of host services (hosts) are not.
func (m *model) encloses(unit string, hosts []string) string {
	e := m.units[unit]
	if e == nil || e.unit.Path == "" {
		return ""
	}
	within := func(p cgroup.Path) bool { return strings.HasPrefix(string(p), string(e.unit.Path)+"/") }
	for _, name := range slices.Sorted(maps.Keys(m.units)) {
		if within(m.units[name].unit.Path) && !slices.Contains(hosts, name) {
			return name
		}
	}
	if slices.ContainsFunc(m.podCgroups(), within) {
		return "pods"
	}
	return ""
}
