package drift

import (
	"context"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// recordTimeout limits reading a record, for which only the repair of the record waits.
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
		if c := k.Objects.Container(d.Container); c != nil && w.known {
			before, asked := k.records[w.container]
			if !asked {
				before = c.Container.Recorded
			}
			before.CPUs, before.Mems = d.before.Recorded.String(), d.before.RecordedMems.String()
			e.RecordKnown = d.before.RecordedKnown
			e.RecordHad, e.RecordHas = inRecord(d.Property, before, k.Formula, d.after), inRecord(d.Property, w.record, k.Formula, d.after)
		}
	}
	original, _ := k.Originals.Get(undo.Key{Path: d.Path, File: d.Property})
	e.Kubelets = d.Path.InPod() && d.Container == "" && d.CPUs.IsEmpty() && original.Value == d.Is
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

// Cause returns the writer. It is unknown with more than one explanation.
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

// deviations returns properties that a write has changed from their desired value.
func deviations(t cgroup.Target, before, after cgroup.State) []retry.Deviation {
	var all []retry.Deviation
	add := func(property, was, is string) {
		all = append(all, retry.Deviation{Property: property, Was: was, Is: is})
	}
	if want := t.CPUs; !want.IsEmpty() {
		switch a, b := before.Inner, after.Inner; {
		case before.CPUs.Equal(want) && !after.CPUs.Equal(want):
			add(cgroup.FileCPUs, before.CPUs.String(), after.CPUs.String())
		case a != nil && b != nil && a.CPUs.Equal(want) && !b.CPUs.Equal(want):
			add(cgroup.FileCPUs, a.CPUs.String(), b.CPUs.String())
		}
	}
	if want := t.Mems; !want.IsEmpty() && before.Mems.Equal(want) && !after.Mems.Equal(want) {
		add(cgroup.FileMems, before.Mems.String(), after.Mems.String())
	}
	if want := t.Weight; want != 0 && before.Weight == want && after.Weight != want {
		add(cgroup.FileWeight, strconv.FormatUint(before.Weight, 10), strconv.FormatUint(after.Weight, 10))
	}
	lifted := t.Unlimited && before.Quota < 0 && after.Quota >= 0
	if lifted || t.Quota > 0 && before.Quota == t.Quota && after.Quota != t.Quota {
		add(cgroup.FileMax, cgroup.FormatMax(before.Quota, before.Period), cgroup.FormatMax(after.Quota, after.Period))
	}
	return all
}

// inUnit reports whether systemd holds the value of a property in a cgroup.
func inUnit(property string, u cgroup.UnitState, st cgroup.State) bool {
	const unsetWeight = 100 // systemd writes it for a weight that is not set
	switch property {
	case cgroup.FileCPUs:
		return u.CPUs.Equal(st.CPUs)
	case cgroup.FileMems:
		return u.Mems.Equal(st.Mems)
	case cgroup.FileWeight:
		return u.Weight == st.Weight || u.Weight == 0 && st.Weight == unsetWeight
	case cgroup.FileMax:
		if u.Quota < 0 || st.Quota < 0 || st.Period <= 0 {
			return u.Quota < 0 && st.Quota < 0
		}
		return u.Quota == st.Quota*1_000_000/st.Period
	}
	return false
}

// inRecord reports whether the runtime has recorded the value of a property in a cgroup.
func inRecord(property string, r cri.Resources, f *formula.Formula, st cgroup.State) bool {
	switch property {
	case cgroup.FileCPUs:
		cpus, err := cpuset.Parse(r.CPUs)
		return err == nil && cpus.Equal(st.CPUs)
	case cgroup.FileMems:
		nodes, err := cpuset.Parse(r.Mems)
		return err == nil && nodes.Equal(st.Mems)
	case cgroup.FileWeight:
		return r.Shares != 0 && f.Weight(r.Shares) == st.Weight
	case cgroup.FileMax:
		return r.Quota > 0 && r.Quota == st.Quota && r.Period == st.Period
	}
	return false
}
