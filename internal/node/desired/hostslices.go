package desired

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of host services that are not where the configuration wants them.
const (
	CodeHostUnconfined pools.Code = "HostUnconfined" // there is no pool for them
	CodeHostForeign    pools.Code = "HostForeign"    // an administrator has given them CPUs
	CodeHostShares     pools.Code = "HostShares"     // what a unit has to itself they have, too
)

// hostCPUs are the CPUs that host services are to keep to; empty if they are left
// alone. While none of their pool is online they are in the shared pool, which has
// the CPUs shared at the moment, as the pods of their pool are: left alone they would
// run on exclusive CPUs.
func (s *Settings) hostCPUs(shared cpuset.Set) cpuset.Set {
	h := s.Config.HostSlices
	specs := s.Config.Pools.Partitions
	spec := slices.IndexFunc(specs, func(p pools.PartitionSpec) bool { return p.Type == h.Pool })
	if !h.Enabled || spec < 0 || specs[spec].All {
		return cpuset.Set{}
	}
	i := slices.IndexFunc(s.Pools.Partitions, func(p pools.Partition) bool { return p.Type == h.Pool })
	if i < 0 {
		return shared
	}
	return s.Pools.Partitions[i].CPUs
}

// HostUnits are the units of host services; none if they are left alone.
func (s *Settings) HostUnits() []string {
	if s.hostCPUs(s.Pools.Shared).IsEmpty() {
		return nil
	}
	return s.Config.HostUnits()
}

// Verdicts say what becomes of host services beside the targets of a plan.
func (s Input) Verdicts(plan pools.Plan, want []cgroup.Target) []hostslices.Verdict {
	names := s.Settings.HostUnits()
	if len(names) == 0 {
		return nil
	}
	var units []hostslices.Unit
	for _, name := range names {
		u := hostslices.Unit{Name: name}
		if e := s.Inventory.Unit(name); e != nil {
			_, ours := s.Journal.Original(undo.Key{Unit: e.Unit.Name, File: cgroup.FileCPUs})
			u.Unit, u.Files, u.Ours = e.Unit, e.Files, ours
		}
		units = append(units, u)
	}
	var placed []hostslices.Placed
	for _, t := range want {
		if t.Unit != "" && !t.Around {
			p := hostslices.Placed{Name: t.Unit, Path: t.Path, CPUs: t.CPUs}
			if e := s.Inventory.Unit(s.Inventory.UnitAt(t.Path)); e != nil {
				p.Had = e.Unit.CPUs
			}
			placed = append(placed, p)
		}
	}
	return hostslices.Decide(units, s.Settings.hostCPUs(plan.Shared).Difference(plan.TheirsAlone), placed, s.Inventory.PodCgroups())
}

// withHost adds the host's services to the targets of a plan.
func (s Input) withHost(plan pools.Plan, want []cgroup.Target) []cgroup.Target {
	for _, v := range s.Verdicts(plan, want) {
		if v.State != hostslices.Confined {
			continue
		}
		t := cgroup.Target{Path: v.Path, Unit: v.Unit, CPUs: v.CPUs, Around: true, Weight: s.Settings.Config.HostSlices.Weight, Reason: "services of the host"}
		if t.Weight == 0 {
			t.Weight = s.Journal.WeightBefore(v.Unit)
		}
		want = append(want, t)
	}
	return want
}
