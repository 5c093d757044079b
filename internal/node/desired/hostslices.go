package desired

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of problems with host services.
const (
	codeHostUnconfined pools.Code = "HostUnconfined" // their pool does not exist
	codeHostForeign    pools.Code = "HostForeign"    // an administrator has set their CPUs
	codeHostShares     pools.Code = "HostShares"     // they may run on exclusive CPUs of a unit in them
)

// HostUnits returns the units of host services that the daemon confines.
func (s *Settings) HostUnits() []string {
	if s.Config.HostCPUs(&s.Pools, s.Pools.Shared).IsEmpty() {
		return nil
	}
	return s.Config.HostUnits()
}

// Verdicts returns how each unit of host services is treated with the targets of a plan.
func (in *Input) Verdicts(plan pools.Plan, want []cgroup.Target) []hostslices.Verdict {
	names := in.Settings.HostUnits()
	if len(names) == 0 {
		return nil
	}
	var units []hostslices.Unit
	for _, name := range names {
		u := hostslices.Unit{Name: name}
		if e := in.Objects.Units().Get(name); e != nil {
			_, ours := in.Originals.Get(undo.Key{Unit: e.Unit.Name, File: cgroup.FileCPUs})
			u.Unit, u.Files, u.Ours = e.Unit, e.Files, ours
		}
		units = append(units, u)
	}
	var placed []hostslices.Placed
	for _, t := range want {
		if t.Unit != "" && !t.Around {
			p := hostslices.Placed{Name: t.Unit, Path: t.Path, CPUs: t.CPUs}
			if e := in.Objects.Units().Get(in.Objects.Units().At(t.Path)); e != nil {
				p.Had = e.Unit.CPUs
			}
			placed = append(placed, p)
		}
	}
	// While their pool has no online CPU, they get the shared pool's, not exclusive CPUs.
	cpus := in.Settings.Config.HostCPUs(&in.Settings.Pools, plan.Shared)
	return hostslices.Decide(units, cpus.Difference(plan.TheirsAlone), placed, in.Objects.PodCgroups())
}

func (in *Input) addHosts(verdicts []hostslices.Verdict, want []cgroup.Target) []cgroup.Target {
	for _, v := range verdicts {
		if v.State != hostslices.Confined {
			continue
		}
		t := cgroup.Target{Path: v.Path, Unit: v.Unit, CPUs: v.CPUs, Around: true, Weight: in.Settings.Config.HostSlices.Weight, Reason: "host services"}
		if t.Weight == 0 {
			t.Weight = in.Originals.WeightBefore(v.Unit)
		}
		want = append(want, t)
	}
	return want
}

// HostProblems returns host services that are not confined, or run on exclusive CPUs of units.
func (s *Settings) HostProblems(m *inventory.Objects, verdicts []hostslices.Verdict, hasSystemd bool) []pools.Problem {
	h := s.Config.HostSlices
	missing, remedy := "", ""
	switch {
	case !h.Enabled:
	case len(s.HostUnits()) == 0:
		missing = fmt.Sprintf("management pool %s with a list of CPUs", h.Pool)
		remedy = "give it a list in partitions[].cpus"
	case !hasSystemd:
		missing, remedy = "systemd", "in a container mount the host's /run/systemd and /run/dbus"
	}
	if missing != "" {
		text := fmt.Sprintf("there is no %s on this machine: they run everywhere; %s", missing, remedy)
		return []pools.Problem{{Unit: "host services", Reason: pools.Reason{Code: codeHostUnconfined, Text: text}}}
	}
	var all []pools.Problem
	for _, v := range verdicts {
		p := pools.Problem{Unit: v.Name, Reason: pools.Reason{Text: v.Why + "; " + v.Remedy()}}
		switch {
		case v.Partition != "":
			p.Code, p.Text = codeUnitPartition, v.Why+": the daemon does not change it; "+v.Remedy()
		case v.State == hostslices.Foreign:
			p.Code, p.Text = codeHostForeign, v.Why+": the daemon does not change it; "+v.Remedy()
		case v.State == hostslices.HoldsPods:
			p.Code, p.Text = codeUnitEncloses, v.Why+": the daemon does not change it; "+v.Remedy()
		case v.State == hostslices.Unknown && m.Units().Get(v.Name) != nil, v.State == hostslices.Absent && slices.Contains(h.Units, v.Name):
			p.Code = codeUnitMissing
		case !v.Also.IsEmpty():
			p.Code = codeHostShares
			p.Text = fmt.Sprintf("has CPUs %s because %s in it have them: its other services may run there; %s", v.Also, v.Has, v.Remedy())
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}
