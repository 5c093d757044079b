// Package units follows the systemd units of the configuration. It decides when to ask
// systemd about a unit, which CPUs stay reserved for units that leave the configuration, and
// which units get their own properties back. One goroutine uses a [Units]; jobs run elsewhere.
package units

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Sources are the values that a [Units] reads and changes. Submit runs a job after all earlier jobs of
// the same queue, and then passes the result to [Units.Apply].
type Sources struct {
	Host      *hostenv.Host
	Settings  *desired.Settings
	Inventory *inventory.Inventory
	Cache     *kernelstate.Cache
	Journal   *undo.Journal
	Backoffs  *retry.Backoffs
	Log       *slog.Logger
	Submit    func(queue string, job func(context.Context) Result)
}

// Result is the result of a job.
type Result interface{ apply(u *Units, now time.Time) }

// Units holds the questions to systemd, and the units that lose their CPUs.
type Units struct {
	Sources
	known       *inventory.Units
	watched     watched
	asks        map[string]*ask      // by unit name.
	assignments []pools.Assignment   // in force.
	leaving     []pools.Assignment   // of unplaced units.
	hosts       []hostslices.Verdict // decisions of the last plan about host services
	reverting   map[string]bool      // units that are being reverted, or that systemd has refused to revert
	away        map[string]bool      // units that do not exist
	scopes      *Scopes
}

// New returns a Units without questions.
func New(s Sources) *Units {
	return &Units{Sources: s, known: s.Inventory.Objects().Units(), asks: make(map[string]*ask), reverting: make(map[string]bool), away: make(map[string]bool), scopes: &Scopes{s.Inventory.Objects(), s.Cache, make(map[cgroup.Path]bool), make(map[cgroup.Path]bool)}}
}

// Scopes returns the questions about the scopes of containers.
func (u *Units) Scopes() *Scopes { return u.scopes }

// Apply applies the result of a job.
func (u *Units) Apply(r Result, now time.Time) {
	r.apply(u, now)
	u.AskDue(now)
}

// Follow follows the units of the configuration. With ask, it asks for units that are unknown.
func (u *Units) Follow(ask bool, now time.Time) {
	names := u.Settings.UnitNames()
	for _, name := range names {
		if ask && u.known.Get(name) == nil {
			u.Ask(name, now)
		}
	}
	u.forget()
	u.watched.set(names)
}

// follows reports whether a unit is configured, or may still have its CPUs.
func (u *Units) follows(name string) bool {
	return slices.Contains(u.Settings.UnitNames(), name) || !pools.Assigned(u.assignments, pools.Key{Container: name}).IsEmpty()
}

// SetHosts records the decisions of a pass about host services.
func (u *Units) SetHosts(hosts []hostslices.Verdict) { u.hosts = hosts }

// HostView returns the states of host services for metrics.
func (u *Units) HostView() []telemetry.HostUnit {
	var all []telemetry.HostUnit
	for _, v := range u.hosts {
		all = append(all, telemetry.HostUnit{Name: v.Name, State: string(v.State)})
	}
	return all
}

// NoteHosts records the originals of host services.
//
// Confined units had no CPUs before the daemon, unless the journal has an original. If systemd
// has CPUs for a confined unit, the daemon has set them and has lost its journal since, because
// it does not confine a unit with an administrator's CPUs. Without this original, the next write
// would record the daemon's CPUs as the original.
//
// If an administrator has set CPUs for a unit since, they replace the original.
func (u *Units) NoteHosts() {
	for _, v := range u.hosts {
		e := u.known.Get(v.Name)
		switch {
		case e == nil:
		case v.State == hostslices.Confined && e.Unit.Known && !e.Unit.CPUs.IsEmpty():
			u.Journal.Originals.Note(undo.Original{Path: v.Path, Unit: v.Unit, File: cgroup.FileCPUs})
		case v.State == hostslices.Foreign && !e.Files.CPUs.IsEmpty():
			u.Journal.Originals.Amend(undo.Key{Unit: v.Unit, File: cgroup.FileCPUs}, e.Files.CPUs.String())
		}
	}
}

func (u *Units) isUnmanagedHost(name string) bool {
	return slices.ContainsFunc(u.hosts, func(v hostslices.Verdict) bool {
		return v.Name == name && (v.State == hostslices.Foreign || v.State == hostslices.Inside || v.State == hostslices.HoldsPods)
	})
}

func (u *Units) placed() []string {
	hosts := u.Settings.HostUnits()
	isLeft := func(name string) bool { return !u.known.CanPlace(name, hosts) }
	return slices.Concat(slices.DeleteFunc(u.Settings.PlacedNames(), isLeft), slices.DeleteFunc(slices.Clone(hosts), u.isUnmanagedHost))
}
