package daemon

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
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

// hostView is what becomes of host services, for metrics.
func (l *Loop) hostView() []telemetry.HostUnit {
	var all []telemetry.HostUnit
	for _, v := range l.status.hosts {
		all = append(all, telemetry.HostUnit{Name: v.Name, State: string(v.State)})
	}
	return all
}
