package drift

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// recordTimeout is the maximum time for reading the record of the runtime and systemd after
// an external write. The repair of the record waits for it, the repair of the file does not.
const recordTimeout = 2 * time.Second

// reloadMargin is the maximum time between a reload of systemd and a write that it makes.
const reloadMargin = 3 * time.Second

// Record is the record of the runtime and systemd after an external write.
type Record struct {
	Path      cgroup.Path
	container string
	unit      cgroup.UnitState
	record    cri.Resources
	known     bool // record
}

// FetchRecord reads the record of the runtime and systemd. It takes up to two seconds.
func FetchRecord(ctx context.Context, h *hostenv.Host, t cgroup.Target) Record {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	r := Record{Path: t.Path, container: t.Container, unit: h.UnitState(ctx, t.Path)}
	if t.Container != "" {
		c, err := h.Runtime.ContainerStatus(ctx, t.Container)
		r.record, r.known = c.Recorded, err == nil && c.Detailed
	}
	return r
}

func (k *Tracker) causeOf(d *drift) telemetry.Cause {
	var e Evidence
	e.Reload = d.noticed.Sub(k.reloaded).Abs() <= reloadMargin
	if w := d.record; w != nil {
		e.UnitKnown = d.before.Unit.Known && w.unit.Known
		e.UnitHad, e.UnitHas = inUnit(d.Property, d.before.Unit, d.after), inUnit(d.Property, w.unit, d.after)
		if c := k.Inventory.Container(d.Container); c != nil && w.known {
			before, asked := k.records[w.container]
			if !asked {
				before = c.Container.Recorded
			}
			before.CPUs, before.Mems = d.before.Recorded.String(), d.before.RecordedMems.String()
			e.RecordKnown = d.before.RecordedKnown
			e.RecordHad, e.RecordHas = inRecord(d.Property, before, k.Formula, d.after), inRecord(d.Property, w.record, k.Formula, d.after)
		}
	}
	original, _ := k.Journal.Original(undo.Key{Path: d.Path, File: d.Property})
	_, _, inPod := cgroup.PodOf(d.Path)
	e.Kubelets = inPod && d.Container == "" && d.CPUs.IsEmpty() && original.Value == d.Is
	cause := e.Cause()
	k.Backoffs.SetCause(d.Path, d.Property, string(cause))
	k.Log.Info("external write is repaired", "cgroup", d.Path, "property", d.Property, "cause", cause)
	k.AddEvent(d.Path, history.Event{Kind: history.Repaired, Property: d.Property, Before: d.Is, Cause: string(cause)})
	return cause
}

// Evidence holds the facts about an external write. inotify does not name the process. Had
// and Has report whether a record contained the value of the write before and after it.
type Evidence struct {
	// RecordKnown reports whether the record of the runtime is known before and after.
	RecordKnown, RecordHad, RecordHas bool
	// UnitKnown reports the same for systemd.
	UnitKnown, UnitHad, UnitHas bool
	// Reload reports whether systemd has reloaded its units at that time.
	Reload bool
	// Kubelets reports whether the cgroup is the slice of a pod, and the value its original.
	Kubelets bool
}

// Cause returns the process that has written. It is unknown if the evidence has more than
// one explanation.
func (e Evidence) Cause() telemetry.Cause {
	switch {
	case e.RecordKnown && !e.RecordHad && e.RecordHas:
		return telemetry.CauseRuntime // only the runtime changes its record
	case e.UnitKnown && e.UnitHad && e.UnitHas && e.Reload:
		return telemetry.CauseSystemd // systemd has applied an unchanged property
	case e.UnitKnown && !e.UnitHad && e.UnitHas && e.Kubelets && !e.Reload:
		return telemetry.CauseKubelet // an administrator does not know this value
	}
	return telemetry.CauseUnknown
}
