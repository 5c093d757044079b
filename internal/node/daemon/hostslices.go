package daemon

import (
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// releaseSlices replaces the original of a unit for which an administrator has set CPUs, so that
// the daemon restores the administrator's CPUs.
func (l *Loop) releaseSlices() {
	for _, v := range l.status.hosts {
		e := l.inventory.Unit(v.Name)
		if v.State == hostslices.Foreign && e != nil && !e.Files.CPUs.IsEmpty() {
			l.journal.Amend(undo.Key{Unit: v.Unit, File: cgroup.FileCPUs}, e.Files.CPUs.String())
		}
	}
}

// takeSlices records that confined units had no CPUs before the daemon, unless the journal has
// an original. If systemd has CPUs for a confined unit, the daemon has set them and has lost its
// journal since, because it does not confine a unit with an administrator's CPUs. Without this
// original, the next write would record the daemon's CPUs as the original.
func (l *Loop) takeSlices() {
	for _, v := range l.status.hosts {
		e := l.inventory.Unit(v.Name)
		if v.State == hostslices.Confined && e != nil && e.Unit.Known && !e.Unit.CPUs.IsEmpty() {
			l.journal.Note(undo.Original{Path: v.Path, Unit: v.Unit, File: cgroup.FileCPUs})
		}
	}
}

// isUnmanagedHostUnit reports whether the daemon must not place a unit of host services.
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

// hostView returns the states of host services for metrics.
func (l *Loop) hostView() []telemetry.HostUnit {
	var all []telemetry.HostUnit
	for _, v := range l.status.hosts {
		all = append(all, telemetry.HostUnit{Name: v.Name, State: string(v.State)})
	}
	return all
}
