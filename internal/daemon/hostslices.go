package daemon

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/durable"
	services "github.com/cpupoold/cpupoold/internal/host"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// The codes of host services that are not where the configuration wants them.
const (
	codeHostUnconfined pools.Code = "HostUnconfined" // there is no pool for them
	codeHostForeign    pools.Code = "HostForeign"    // an administrator has given them CPUs
	codeHostShares     pools.Code = "HostShares"     // what a unit has to itself they have, too
)

// hostCPUs are the CPUs that host services are to keep to; empty if they are left
// alone. While none of their pool is online they are in the shared pool, which has
// the CPUs shared at the moment, as the pods of their pool are: left alone they would
// run on exclusive CPUs.
func (s *settings) hostCPUs(shared cpuset.Set) cpuset.Set {
	h := s.config.HostSlices
	specs := s.config.Pools.Partitions
	spec := slices.IndexFunc(specs, func(p pools.PartitionSpec) bool { return p.Type == h.Pool })
	if !h.Enabled || spec < 0 || specs[spec].All {
		return cpuset.Set{}
	}
	i := slices.IndexFunc(s.pools.Partitions, func(p pools.Partition) bool { return p.Type == h.Pool })
	if i < 0 {
		return shared
	}
	return s.pools.Partitions[i].CPUs
}

// hostUnits are the units of host services; none if they are left alone.
func (s *settings) hostUnits() []string {
	if s.hostCPUs(s.pools.Shared).IsEmpty() {
		return nil
	}
	return s.config.HostUnits()
}

// verdicts say what becomes of host services beside the targets of a plan.
func (s scene) verdicts(plan pools.Plan, want []cgroup.Target) []services.Verdict {
	names := s.settings.hostUnits()
	if len(names) == 0 {
		return nil
	}
	var units []services.Unit
	for _, name := range names {
		u := services.Unit{Name: name}
		if e := s.model.units[name]; e != nil {
			_, ours := s.ledger.originals[originalKey{unit: e.unit.Name, file: cgroup.FileCPUs}]
			u.Unit, u.Files, u.Ours = e.unit, e.files, ours
		}
		units = append(units, u)
	}
	var placed []services.Placed
	for _, t := range want {
		if t.Unit != "" && !t.Around {
			p := services.Placed{Name: t.Unit, Path: t.Path, CPUs: t.CPUs}
			if e := s.model.units[s.model.unitAt(t.Path)]; e != nil {
				p.Had = e.unit.CPUs
			}
			placed = append(placed, p)
		}
	}
	return services.Decide(units, s.settings.hostCPUs(plan.Shared).Difference(plan.TheirsAlone), placed, s.model.podCgroups())
}

// withHost adds the host's services to the targets of a plan.
func (s scene) withHost(plan pools.Plan, want []cgroup.Target) []cgroup.Target {
	for _, v := range s.verdicts(plan, want) {
		if v.State != services.Confined {
			continue
		}
		t := cgroup.Target{Path: v.Path, Unit: v.Unit, CPUs: v.CPUs, Around: true, Weight: s.settings.config.HostSlices.Weight, Reason: "services of the host"}
		if t.Weight == 0 {
			t.Weight = s.ledger.weightBefore(v.Unit)
		}
		want = append(want, t)
	}
	return want
}

// podCgroups are the cgroups of pods and containers.
func (m *model) podCgroups() []cgroup.Path {
	all := m.slices()
	for _, e := range m.pods {
		all = append(all, e.pause)
	}
	for _, e := range m.containers {
		all = append(all, e.path)
	}
	return all
}

// weightBefore is the weight that a unit had before the daemon gave it another one, 0
// if it has not.
func (l *ledger) weightBefore(unit string) uint64 {
	o, given := l.originals[originalKey{unit: unit, file: cgroup.FileWeight}]
	if !given {
		return 0
	}
	const unset = 100 // what systemd gives units that it has no CPUWeight for
	w, err := strconv.ParseUint(o.Value, 10, 64)
	if err != nil {
		return unset
	}
	return w
}

// yield makes what an administrator has come to say of a unit what it gets back: then
// it is given back as soon as he has spoken.
func (l *loop) yield() {
	for _, v := range l.status.hosts {
		e := l.model.units[v.Name]
		if v.State == services.Foreign && e != nil && !e.files.CPUs.IsEmpty() {
			l.ledger.amend(originalKey{unit: v.Unit, file: cgroup.FileCPUs}, e.files.CPUs.String())
		}
	}
}

// claim records that confined units for which systemd has CPUs had none before, unless
// the journal knows better: an administrator's would not be confined, so the daemon has
// set them, and has lost its journal since. A write would take them for the original,
// and without one they would pass for an administrator's as soon as the unit is to have
// others.
func (l *loop) claim() {
	for _, v := range l.status.hosts {
		e := l.model.units[v.Name]
		if v.State == services.Confined && e != nil && e.unit.Known && !e.unit.CPUs.IsEmpty() {
			l.ledger.note(Original{Path: v.Path, Unit: v.Unit, File: cgroup.FileCPUs})
		}
	}
}

// amend replaces the value of an original that is there.
func (l *ledger) amend(k originalKey, value string) {
	if o, ok := l.originals[k]; ok && o.Value != value {
		o.Value = value
		l.originals[k] = o
		l.changes++
		l.barrier = l.changes
	}
}

// leftAlone says that a unit of host services is not to be placed.
func (l *loop) leftAlone(name string) bool {
	i := slices.IndexFunc(l.status.hosts, func(v services.Verdict) bool { return v.Name == name })
	if i < 0 {
		return false
	}
	switch l.status.hosts[i].State {
	case services.Foreign, services.Inside, services.HoldsPods:
		return true
	}
	return false
}

// hostProblems are the host's services that are not confined although they should
// be, and those with whom units share.
func (l *loop) hostProblems() []pools.Problem {
	h := l.settings.config.HostSlices
	missing, remedy := "", ""
	switch {
	case !h.Enabled:
	case len(l.settings.hostUnits()) == 0:
		missing = fmt.Sprintf("management pool %s with a list of CPUs", h.Pool)
		remedy = "give it a list in partitions[].cpus"
	case l.units == nil:
		missing, remedy = "systemd", "in a container mount the host's /run/systemd and /run/dbus"
	}
	if missing != "" {
		text := fmt.Sprintf("there is no %s on this machine: they run everywhere; %s", missing, remedy)
		return []pools.Problem{{Unit: "host services", Reason: pools.Reason{Code: codeHostUnconfined, Text: text}}}
	}
	var all []pools.Problem
	for _, v := range l.status.hosts {
		p := pools.Problem{Unit: v.Name, Reason: pools.Reason{Text: v.Why + "; " + v.Remedy()}}
		switch {
		case v.State == services.Foreign:
			p.Code, p.Text = codeHostForeign, v.Why+": it is left alone; "+v.Remedy()
		case v.State == services.HoldsPods:
			p.Code, p.Text = codeUnitEncloses, v.Why+": it is left alone; "+v.Remedy()
		case v.State == services.Unknown && l.model.units[v.Name] != nil, v.State == services.Absent && slices.Contains(h.Units, v.Name):
			p.Code = codeUnitMissing
		case !v.Also.IsEmpty():
			p.Code = codeHostShares
			p.Text = fmt.Sprintf("has CPUs %s because %s in it have them: services beside these may run there; %s", v.Also, v.Has, v.Remedy())
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}

// hostView is what becomes of host services, for metrics.
func (l *loop) hostView() []telemetry.HostUnit {
	var all []telemetry.HostUnit
	for _, v := range l.status.hosts {
		all = append(all, telemetry.HostUnit{Name: v.Name, State: string(v.State)})
	}
	return all
}

// hostFile reads a unit file of the host, from within a privileged container too.
func hostFile(name string) ([]byte, error) {
	return services.OfTheHost(func(name string) ([]byte, error) { return durable.Read(name, unitFileLimit) })(name)
}

// unitFileLimit is far above any unit file, in bytes.
const unitFileLimit = 1 << 20
