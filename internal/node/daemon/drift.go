package daemon

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// recordTimeout is the maximum time for reading the record of the runtime and systemd after
// an external write. The repair of the record waits for it, the repair of the file does not.
const recordTimeout = 2 * time.Second

// reloadMargin is the maximum time between a reload of systemd and a write that it makes.
const reloadMargin = 3 * time.Second

// driftTracker follows external writes to cgroups in their desired state: from the notice or
// the reading until the value is repaired and the cause is known.
type driftTracker struct {
	notices  map[cgroup.Path]time.Time // when the watcher reported a write, until it is read
	open     []*drift
	records  map[string]cri.Resources // of containers, as last read after a drift
	reloaded time.Time                // when systemd last reloaded
	total    map[telemetry.Drift]uint64
	repaired map[telemetry.Drift]uint64 // the part of total that was repaired
	repairs  telemetry.Histogram
}

// drift is a value that differs after an external write.
type drift struct {
	cgroup.Target
	retry.Deviation
	before   cgroup.Current
	after    cgroup.State
	noticed  time.Time
	watched  bool // the watcher reported the write; a reading found other writes
	record   *recordAfter
	repaired bool
}

func newDrifts() *driftTracker {
	return &driftTracker{
		notices:  make(map[cgroup.Path]time.Time),
		records:  make(map[string]cri.Resources),
		total:    make(map[telemetry.Drift]uint64),
		repaired: make(map[telemetry.Drift]uint64),
		repairs:  telemetry.NewHistogram(),
	}
}

// noteNotice records the notice of a write to a cgroup.
func (d *driftTracker) noteNotice(p cgroup.Path, at time.Time) {
	if _, before := d.notices[p]; !before {
		d.notices[p] = at
	}
}

// followDrifts opens a drift for each external write that the last reading has found.
func (l *Loop) followDrifts(now time.Time) {
	found := l.cache.TakeExternal()
	if l.Observes {
		found = nil // nothing is repaired
	}
	for _, f := range found {
		p := f.Target.Path
		at, heard := l.drifts.notices[p]
		if !heard {
			at = now
		}
		if l.unidentified.has(p) || l.inventory.IsAwaited(f.Target) && f.Target.Unit == "" {
			continue // the cgroup is being made
		}
		deviations := deviations(f.Target, f.Before.State, f.After)
		for _, dev := range deviations {
			l.log.Warn("external write to a cgroup", "cgroup", p, "property", dev.Property, "was", dev.Was, "is", dev.Is)
			l.noteAt(p, history.Event{Kind: history.Drift, Property: dev.Property, Before: dev.Was, Value: dev.Is})
			l.drifts.open = append(l.drifts.open, &drift{Target: f.Target, Deviation: dev, before: f.Before, after: f.After, noticed: at, watched: heard})
			l.backoffs.NoteExternalWrite(p, dev, now)
		}
		if len(deviations) > 0 {
			l.readRecord(f.Target)
		}
		if f.Target.Around && f.Target.Unit != "" {
			l.units.Ask(l.inventory.UnitAt(p), l.now()) // an administrator may have set its CPUs
		}
	}
	clear(l.drifts.notices)
}

// readRecord reads the record of the runtime and systemd before the daemon repairs it.
func (l *Loop) readRecord(t cgroup.Target) {
	l.workers.Updates.Submit(string(t.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		w := recordAfter{path: t.Path, container: t.Container, unit: l.UnitState(ctx, t.Path)}
		if t.Container != "" {
			c, err := l.Runtime.ContainerStatus(ctx, t.Container)
			w.record, w.known = c.Recorded, err == nil && c.Detailed
		}
		return recordRead{w}
	})
}

// recordAfter is the record of the runtime and systemd after an external write.
type recordAfter struct {
	path      cgroup.Path
	container string
	unit      cgroup.UnitState
	record    cri.Resources
	known     bool // record
}

// recordRead is the event of an answer to readRecord.
type recordRead struct{ recordAfter }

func (recordRead) scope(*Loop) scope { return scopeOne }

func (e recordRead) apply(l *Loop) {
	for _, d := range l.drifts.open {
		if d.Path == e.path && d.record == nil {
			d.record = &e.recordAfter
		}
	}
	cpus, err := cpuset.Parse(e.record.CPUs)
	l.cache.ConfirmRecord(e.path, cpus, e.known && err == nil, e.unit)
}

// unconfirmed returns the cgroups of containers whose cpuset was overwritten, until their
// record is read. An update over CRI waits for it: it also writes the runtime's weight and
// quota, and it is not needed if the record is unchanged.
func (d *driftTracker) unconfirmed() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, o := range d.open {
		if o.Container != "" && o.Property == cgroup.FileCPUs && o.record == nil {
			all[o.Path] = true
		}
	}
	return all
}

// changed returns the cgroups with an unrepaired drift of a property.
func (d *driftTracker) changed(property string) map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, o := range d.open {
		if o.Property == property && !o.repaired {
			all[o.Path] = true
		}
	}
	return all
}

// unrepaired returns the number of unrepaired drifts. It omits the cpusets of cgroups that are
// confined in a write conflict.
func (d *driftTracker) unrepaired(confined func(cgroup.Path) bool) int {
	n := 0
	for _, o := range d.open {
		if !o.repaired && (o.Property != cgroup.FileCPUs || !confined(o.Path)) {
			n++
		}
	}
	return n
}

// settleDrifts closes and counts the drifts that are repaired and those with a cgroup that is
// gone.
func (l *Loop) settleDrifts(now time.Time) {
	records := make(map[string]cri.Resources)
	l.drifts.open = slices.DeleteFunc(l.drifts.open, func(d *drift) bool {
		c := l.cache.Current(d.Path)
		i := slices.IndexFunc(l.status.targets, func(t cgroup.Target) bool { return t.Path == d.Path }) // may differ from d.Target
		there := c.Exists && i >= 0
		if there && !d.repaired && !l.cache.IsStale(d.Path) && !d.isLasting(l.status.targets[i], c.State) {
			d.repaired = true
			if d.watched {
				l.drifts.repairs.Observe(now.Sub(d.noticed).Seconds())
			}
		}
		if there && (!d.repaired || d.record == nil) {
			return false
		}
		if d.record != nil && d.record.known {
			records[d.record.container] = d.record.record
		}
		kind := telemetry.Drift{Cause: l.causeOf(d), Property: d.Property}
		l.drifts.total[kind]++
		if d.repaired {
			l.drifts.repaired[kind]++
		}
		return true
	})
	maps.Copy(l.drifts.records, records)
	maps.DeleteFunc(l.drifts.records, func(id string, _ cri.Resources) bool { return l.inventory.Container(id) == nil })
}

// isLasting reports whether the property still differs from its target. Other properties of
// the cgroup may differ because of a pause.
func (d *drift) isLasting(t cgroup.Target, now cgroup.State) bool {
	return slices.ContainsFunc(deviations(t, d.before.State, now), func(dev retry.Deviation) bool { return dev.Property == d.Property })
}

// causeOf returns the cause of a drift, and records it.
func (l *Loop) causeOf(d *drift) telemetry.Cause {
	var e evidence
	e.reload = d.noticed.Sub(l.drifts.reloaded).Abs() <= reloadMargin
	if w := d.record; w != nil {
		e.unitKnown = d.before.Unit.Known && w.unit.Known
		e.unitHad, e.unitHas = inUnit(d.Property, d.before.Unit, d.after), inUnit(d.Property, w.unit, d.after)
		if c := l.inventory.Container(d.Container); c != nil && w.known {
			before, asked := l.drifts.records[w.container]
			if !asked {
				before = c.Container.Recorded
			}
			before.CPUs, before.Mems = d.before.Recorded.String(), d.before.RecordedMems.String()
			e.recordKnown = d.before.RecordedKnown
			e.recordHad, e.recordHas = inRecord(d.Property, before, &l.formula, d.after), inRecord(d.Property, w.record, &l.formula, d.after)
		}
	}
	original, _ := l.journal.Original(undo.Key{Path: d.Path, File: d.Property})
	_, _, inPod := cgroup.PodOf(d.Path)
	e.kubelets = inPod && d.Container == "" && d.CPUs.IsEmpty() && original.Value == d.Is
	cause := e.cause()
	l.backoffs.SetCause(d.Path, d.Property, string(cause))
	l.log.Info("external write is repaired", "cgroup", d.Path, "property", d.Property, "cause", cause)
	l.noteAt(d.Path, history.Event{Kind: history.Repaired, Property: d.Property, Before: d.Is, Cause: string(cause)})
	return cause
}

// evidence holds the facts about an external write. inotify does not name the process. Had
// and Has report whether a record contained the value of the write before and after it.
type evidence struct {
	// recordKnown reports whether the record of the runtime is known before and after.
	recordKnown, recordHad, recordHas bool
	// unitKnown reports the same for systemd.
	unitKnown, unitHad, unitHas bool
	// reload reports whether systemd has reloaded its units at that time.
	reload bool
	// kubelets reports whether the cgroup is the slice of a pod, and the value its original.
	kubelets bool
}

// cause returns the process that has written. It is unknown if the evidence has more than
// one explanation.
func (e evidence) cause() telemetry.Cause {
	switch {
	case e.recordKnown && !e.recordHad && e.recordHas:
		return telemetry.CauseRuntime // only the runtime changes its record
	case e.unitKnown && e.unitHad && e.unitHas && e.reload:
		return telemetry.CauseSystemd // systemd has applied an unchanged property
	case e.unitKnown && !e.unitHad && e.unitHas && e.kubelets && !e.reload:
		return telemetry.CauseKubelet // an administrator does not know this value
	}
	return telemetry.CauseUnknown
}

// deviations returns the properties of a target that a write has changed from its desired
// value.
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
func inRecord(property string, r cri.Resources, f *desired.Formula, st cgroup.State) bool {
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
