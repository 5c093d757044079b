package desired

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CodeUnitEncloses is the code of units whose cgroup contains somebody who is placed
// for himself.
const CodeUnitEncloses pools.Code = "UnitEncloses"

// placeable are the configured pools with those of the units that can be placed, and
// without the CPUs of units that are about to leave them. A slice around pods, or
// around another unit of the configuration, cannot have CPUs of its own: it would
// limit them all to these. Those inside go first. A unit that systemd has not told
// about gets nothing new: it may be on CPUs that it can keep.
func (s *Input) placeable() pools.Pools {
	p := s.Kubelet.adjust(s.Settings.Pools, s.Settings.Topology.Online)
	p.Units = slices.DeleteFunc(slices.Clone(p.Units), func(u pools.UnitSpec) bool {
		fresh := s.Systemd && u.CPUs > 0 && Assigned(s.Previous, pools.Key{Container: u.Name}).IsEmpty() && s.Inventory.HasUnnamed([]string{u.Name})
		return fresh || s.Inventory.Encloses(u.Name, s.Settings.HostUnits()) != ""
	})
	if s.Leaving.IsEmpty() {
		return p
	}
	owned := s.Leaving
	for _, a := range s.Previous {
		owned = owned.Union(a.CPUs)
	}
	// Where those who leave and other owners have all of a pool, Diff makes it wait:
	// no owner has to give way for it.
	without := func(pool cpuset.Set) cpuset.Set {
		if pool.IsSubsetOf(owned) {
			return pool
		}
		return pool.Difference(s.Leaving)
	}
	p.Guaranteed = p.Guaranteed.Difference(s.Leaving)
	p.Shared = without(p.Shared)
	p.Partitions = slices.Clone(p.Partitions)
	for i := range p.Partitions {
		p.Partitions[i].CPUs = without(p.Partitions[i].CPUs)
	}
	return p
}

// Inherit gives a unit the CPUs that it had by another name.
func (s *Settings) Inherit(all []pools.Assignment, heir string, a pools.Assignment) []pools.Assignment {
	exclusive := slices.ContainsFunc(s.Pools.Units, func(u pools.UnitSpec) bool { return u.Name == heir && u.CPUs > 0 })
	if !exclusive || !Assigned(all, pools.Key{Container: heir}).IsEmpty() {
		return all
	}
	return append(all, pools.Assignment{Key: pools.Key{Container: heir}, CPUs: a.CPUs, Away: a.Away})
}
