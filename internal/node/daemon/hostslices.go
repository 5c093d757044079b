package daemon

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// releaseSlices makes what an administrator has come to say of a unit what it gets back: then
// it is given back as soon as he has spoken.
func (l *Loop) releaseSlices() {
	for _, v := range l.status.hosts {
		e := l.inventory.Unit(v.Name)
		if v.State == hostslices.Foreign && e != nil && !e.Files.CPUs.IsEmpty() {
			l.journal.Amend(undo.Key{Unit: v.Unit, File: cgroup.FileCPUs}, e.Files.CPUs.String())
		}
	}
}

// takeSlices records that confined units for which systemd has CPUs had none before, unless
// the journal knows better: an administrator's would not be confined, so the daemon has
// set them, and has lost its journal since. A write would take them for the original,
// and without one they would pass for an administrator's as soon as the unit is to have
// others.
func (l *Loop) takeSlices() {
	for _, v := range l.status.hosts {
		e := l.inventory.Unit(v.Name)
		if v.State == hostslices.Confined && e != nil && e.Unit.Known && !e.Unit.CPUs.IsEmpty() {
			l.journal.Note(undo.Original{Path: v.Path, Unit: v.Unit, File: cgroup.FileCPUs})
		}
	}
}

// isUnmanagedHostUnit says that a unit of host services is not to be placed.
func (l *Loop) isUnmanagedHostUnit(name string) bool {
	i := slices.IndexFunc(l.status.hosts, func(v hostslices.Verdict) bool { return v.Name == name })
	if i < 0 {
		return false
	}
	switch l.status.hosts[i].State {
	case hostslices.Foreign, hostslices.Inside, hostslices.HoldsPods:
		return true
	}
	return false
}

// hostProblems are the host's services that are not confined although they should
// be, and those with whom units share.
func (l *Loop) hostProblems() []pools.Problem {
	h := l.settings.Config.HostSlices
	missing, remedy := "", ""
	switch {
	case !h.Enabled:
	case len(l.settings.HostUnits()) == 0:
		missing = fmt.Sprintf("management pool %s with a list of CPUs", h.Pool)
		remedy = "give it a list in partitions[].cpus"
	case l.Units == nil:
		missing, remedy = "systemd", "in a container mount the host's /run/systemd and /run/dbus"
	}
	if missing != "" {
		text := fmt.Sprintf("there is no %s on this machine: they run everywhere; %s", missing, remedy)
		return []pools.Problem{{Unit: "host services", Reason: pools.Reason{Code: desired.CodeHostUnconfined, Text: text}}}
	}
	var all []pools.Problem
	for _, v := range l.status.hosts {
		p := pools.Problem{Unit: v.Name, Reason: pools.Reason{Text: v.Why + "; " + v.Remedy()}}
		switch {
		case v.State == hostslices.Foreign:
			p.Code, p.Text = desired.CodeHostForeign, v.Why+": it is left alone; "+v.Remedy()
		case v.State == hostslices.HoldsPods:
			p.Code, p.Text = desired.CodeUnitEncloses, v.Why+": it is left alone; "+v.Remedy()
		case v.State == hostslices.Unknown && l.inventory.Unit(v.Name) != nil, v.State == hostslices.Absent && slices.Contains(h.Units, v.Name):
			p.Code = codeUnitMissing
		case !v.Also.IsEmpty():
			p.Code = desired.CodeHostShares
			p.Text = fmt.Sprintf("has CPUs %s because %s in it have them: services beside these may run there; %s", v.Also, v.Has, v.Remedy())
		default:
			continue
		}
		all = append(all, p)
	}
	return all
}

// hostView is what becomes of host services, for metrics.
func (l *Loop) hostView() []telemetry.HostUnit {
	var all []telemetry.HostUnit
	for _, v := range l.status.hosts {
		all = append(all, telemetry.HostUnit{Name: v.Name, State: string(v.State)})
	}
	return all
}
