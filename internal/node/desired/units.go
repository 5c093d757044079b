package desired

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of problems with units of the configuration.
const (
	codeUnitMissing  pools.Code = "UnitMissing"  // systemd cannot start it, or is not available
	codeUnitEncloses pools.Code = "UnitEncloses" // its cgroup contains placed cgroups
	// codeUnitPartition: systemd makes the unit a cpuset partition.
	codeUnitPartition pools.Code = "UnitPartition"
)

// UnitNames returns the systemd units of the configuration: PlacedNames and HostUnits.
func (s *Settings) UnitNames() []string { return slices.Concat(s.PlacedNames(), s.HostUnits()) }

// PlacedNames returns the systemd units with CPUs in the configuration.
func (s *Settings) PlacedNames() []string {
	names := make([]string, len(s.Pools.Units))
	for i, u := range s.Pools.Units {
		names[i] = u.Name
	}
	return names
}

// availablePools returns the configured pools with the units that can be placed, and without
// the CPUs of units that are about to leave them. The guaranteed pool is without the CPUs of the
// kubelet's system partition that no owner has. A slice that contains pods or another unit of
// the configuration gets no exclusive CPUs, because they would limit all of these. The units in
// it take precedence. Systemd writes the partition of a unit with CPUSetPartition= again at each
// daemon-reload, so the daemon does not place the unit. A unit gets new CPUs only after systemd
// has described it: it may run on CPUs that it can keep.
func (in *Input) availablePools() pools.Pools {
	p := in.Settings.Pools
	if shared := in.Kubelet.Shared().Intersection(in.Settings.Topology.Online); p.Kubelet && !shared.IsEmpty() {
		p.Shared = shared // the kubelet's default set
	}
	p.Units = slices.DeleteFunc(slices.Clone(p.Units), func(u pools.UnitSpec) bool {
		isNew := in.Systemd && u.CPUs > 0 && pools.Assigned(in.Previous, pools.Key{Container: u.Name}).IsEmpty() && in.Objects.Units().HasUnnamed([]string{u.Name})
		return isNew || !in.Objects.Units().CanPlace(u.Name, in.Settings.HostUnits())
	})
	if in.Leaving.Union(in.System).IsEmpty() {
		return p
	}
	var owned cpuset.Set
	for _, a := range in.Previous {
		owned = owned.Union(a.CPUs)
	}
	foreign := in.System.Difference(owned)
	p.Guaranteed, p.Claims.CPUs = p.Guaranteed.Difference(foreign), p.Claims.CPUs.Difference(foreign)
	if in.Leaving.IsEmpty() {
		return p
	}
	owned = owned.Union(in.Leaving)
	// If leaving units and owners have all CPUs of a pool, Diff delays its containers. No
	// owner has to leave its CPUs for them.
	without := func(pool cpuset.Set) cpuset.Set {
		if pool.IsSubsetOf(owned) {
			return pool
		}
		return pool.Difference(in.Leaving)
	}
	p.Guaranteed, p.Claims.CPUs = p.Guaranteed.Difference(in.Leaving), p.Claims.CPUs.Difference(in.Leaving)
	p.Shared = without(p.Shared)
	p.Partitions = slices.Clone(p.Partitions)
	for i := range p.Partitions {
		p.Partitions[i].CPUs = without(p.Partitions[i].CPUs)
	}
	return p
}

// Inherit returns the assignments with the CPUs in a for heir, the unit's new name.
func (s *Settings) Inherit(all []pools.Assignment, heir string, a pools.Assignment) []pools.Assignment {
	exclusive := slices.ContainsFunc(s.Pools.Units, func(u pools.UnitSpec) bool { return u.Name == heir && u.CPUs > 0 })
	if !exclusive || !pools.Assigned(all, pools.Key{Container: heir}).IsEmpty() {
		return all
	}
	return append(all, pools.Assignment{Key: pools.Key{Container: heir}, CPUs: a.CPUs, Away: a.Away})
}

// UnitProblems returns the configured units with CPUs that have no cgroup to place.
func (s *Settings) UnitProblems(m *inventory.Objects, hasSystemd bool) []pools.Problem {
	var all []pools.Problem
	report := func(name string, code pools.Code, text string) {
		all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: code, Text: text}})
	}
	hosts := s.HostUnits()
	for _, name := range s.PlacedNames() {
		u := m.Units().Get(name)
		switch inside := m.Units().Encloses(name, hosts); {
		case inside != "":
			report(name, codeUnitEncloses, "its cgroup contains "+inside+", which would be limited to its CPUs; the daemon does not place it")
		case u != nil && u.Unit.Partition != "":
			report(name, codeUnitPartition, fmt.Sprintf("systemd sets its cpuset partition (%s=%s): the daemon does not place it; remove the property from the unit, or the unit from units",
				cgroup.UnitPartition, u.Unit.Partition))
		case u == nil && hasSystemd:
			// Systemd has not answered yet.
		case u == nil:
			report(name, codeUnitMissing, "there is no systemd here")
		case u.Err != nil:
			report(name, codeUnitMissing, u.Err.Error())
		case !u.Unit.Loaded():
			report(name, codeUnitMissing, "systemd cannot start it: "+u.Unit.Load+"; its CPUs are kept for it")
		}
	}
	return all
}

// OwnerOf returns the key of the container or unit of a target, or the zero key for pods and
// pause containers.
func (s *Settings) OwnerOf(t cgroup.Target, m *inventory.Objects) pools.Key {
	if t.Unit != "" {
		for _, u := range s.Pools.Units {
			if m.Units().NameOf(u.Name) == t.Unit {
				return pools.Key{Container: u.Name}
			}
		}
	}
	if e := m.Container(t.Container); e != nil {
		return e.Key()
	}
	return pools.Key{}
}
