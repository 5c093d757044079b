// Package drift follows external writes to cgroups in their desired state: from the notice or the
// reading until the daemon has repaired the value and knows the cause. One goroutine uses a
// [Tracker].
package drift

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Sources are the values that a [Tracker] reads and changes. AddEvent is for the history.
type Sources struct {
	Objects   *inventory.Objects
	Cache     *kernelstate.Cache
	Originals *undo.Originals
	Backoffs  *retry.Backoffs
	Formula   *formula.Formula
	Log       *slog.Logger
	AddEvent  func(cgroup.Path, history.Event)
}

// Tracker holds the drifts of a node.
type Tracker struct {
	Sources
	notices  map[cgroup.Path]time.Time // when the watcher reported a write, until it is read
	open     []*drift
	records  map[string]cri.Resources // of containers, as last read after a drift
	reloaded time.Time                // when systemd last reloaded
	figures  telemetry.Drifted
}

type drift struct {
	cgroup.Target
	retry.Deviation
	before   cgroup.Current
	after    cgroup.State
	noticed  time.Time
	watched  bool // the watcher reported the write; a reading found other writes
	record   *Record
	repaired bool
}

// New returns a Tracker without drifts.
func New(s Sources) *Tracker {
	return &Tracker{
		Sources: s,
		notices: make(map[cgroup.Path]time.Time),
		records: make(map[string]cri.Resources),
		figures: telemetry.Drifted{Drifts: make(map[telemetry.Drift]uint64), Repaired: make(map[telemetry.Drift]uint64), Repairs: telemetry.NewHistogram()},
	}
}

// Notice records that the watcher has reported a write to a cgroup.
func (k *Tracker) Notice(p cgroup.Path, at time.Time) {
	if _, before := k.notices[p]; !before {
		k.notices[p] = at
	}
}

// Reloaded records that systemd has reloaded its units.
func (k *Tracker) Reloaded(at time.Time) { k.reloaded = at }

// Open opens a drift for each external write that the last reading has found, and that ignored
// does not name. It returns the targets with drifts. The daemon must read their records before it
// repairs them. It also returns the units of host services that were written.
func (k *Tracker) Open(now time.Time, ignored func(cgroup.Path) bool) (drifted, hosts []cgroup.Target) {
	for _, f := range k.Cache.TakeExternal() {
		p := f.Target.Path
		at, heard := k.notices[p]
		if !heard {
			at = now
		}
		if ignored(p) || k.Objects.IsAwaited(f.Target) && f.Target.Unit == "" {
			continue // the cgroup is being made
		}
		deviations := deviations(f.Target, f.Before.State, f.After)
		for _, dev := range deviations {
			k.Log.Warn("external write to a cgroup", "cgroup", p, "property", dev.Property, "was", dev.Was, "is", dev.Is)
			k.AddEvent(p, history.Event{Kind: history.Drift, Property: dev.Property, Before: dev.Was, Value: dev.Is})
			k.open = append(k.open, &drift{Target: f.Target, Deviation: dev, before: f.Before, after: f.After, noticed: at, watched: heard})
			k.Backoffs.NoteExternalWrite(p, dev, now)
		}
		if len(deviations) > 0 {
			drifted = append(drifted, f.Target)
		}
		if f.Target.Around && f.Target.Unit != "" {
			hosts = append(hosts, f.Target)
		}
	}
	clear(k.notices)
	return drifted, hosts
}

// Confirm applies the record of a cgroup after an external write.
func (k *Tracker) Confirm(r Record) {
	for _, d := range k.open {
		if d.Path == r.Path && d.record == nil {
			d.record = &r
		}
	}
	cpus, err := cpuset.Parse(r.record.CPUs)
	k.Cache.ConfirmRecord(r.Path, cpus, r.known && err == nil, r.unit)
}

// Unconfirmed returns the cgroups of containers with an overwritten cpuset and an unread
// record. An update over CRI waits for it: it also writes the runtime's weight and
// quota, and it is not needed if the record is unchanged.
func (k *Tracker) Unconfirmed() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, o := range k.open {
		if o.Container != "" && o.Property == cgroup.FileCPUs && o.record == nil {
			all[o.Path] = true
		}
	}
	return all
}

// Unrepaired returns the properties with an unrepaired drift, by cgroup.
func (k *Tracker) Unrepaired() map[cgroup.Path][]string {
	var all map[cgroup.Path][]string
	for _, o := range k.open {
		if !o.repaired {
			if all == nil {
				all = make(map[cgroup.Path][]string)
			}
			all[o.Path] = append(all[o.Path], o.Property)
		}
	}
	return all
}

// ChangedWeights returns the cgroups with an unrepaired drift of the weight.
func (k *Tracker) ChangedWeights() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for p, properties := range k.Unrepaired() {
		if slices.Contains(properties, cgroup.FileWeight) {
			all[p] = true
		}
	}
	return all
}

// Figures returns a copy of the figures.
func (k *Tracker) Figures() telemetry.Drifted {
	return telemetry.Drifted{Drifts: maps.Clone(k.figures.Drifts), Repaired: maps.Clone(k.figures.Repaired), Repairs: k.figures.Repairs.Clone()}
}

// Settle closes and counts the drifts that are repaired and those with a cgroup that is gone.
func (k *Tracker) Settle(targets []cgroup.Target, now time.Time) {
	records := make(map[string]cri.Resources)
	k.open = slices.DeleteFunc(k.open, func(d *drift) bool {
		c := k.Cache.Current(d.Path)
		i := slices.IndexFunc(targets, func(t cgroup.Target) bool { return t.Path == d.Path }) // may differ from d.Target
		there := c.Exists && i >= 0
		isSame := func(dev retry.Deviation) bool { return dev.Property == d.Property } // others may differ because of a pause
		if there && !d.repaired && !k.Cache.IsStale(d.Path) && !slices.ContainsFunc(deviations(targets[i], d.before.State, c.State), isSame) {
			d.repaired = true
			if d.watched {
				k.figures.Repairs.Observe(now.Sub(d.noticed).Seconds())
			}
		}
		if there && (!d.repaired || d.record == nil) {
			return false
		}
		if d.record != nil && d.record.known {
			records[d.record.container] = d.record.record
		}
		kind := telemetry.Drift{Cause: k.causeOf(d), Property: d.Property}
		k.figures.Drifts[kind]++
		if d.repaired {
			k.figures.Repaired[kind]++
		}
		return true
	})
	maps.Copy(k.records, records)
	maps.DeleteFunc(k.records, func(id string, _ cri.Resources) bool { return k.Objects.Container(id) == nil })
}
