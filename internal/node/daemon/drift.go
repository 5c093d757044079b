package daemon

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// witnessPatience is the limit for what runtime and systemd have on record after a
// foreign write: the repair of the record waits for it, that of the file does not.
const witnessPatience = 2 * time.Second

// reloadMargin is how far a reload of systemd and a write that it makes may be apart.
const reloadMargin = 3 * time.Second

// driftTracker follow what others write to cgroups that were as planned, from the moment
// that it was noticed until it is repaired and known whose it was.
type driftTracker struct {
	heard    map[cgroup.Path]time.Time // when the watcher told of a write that is not read yet
	open     []*drift
	records  map[string]cri.Resources // of containers, as the last witness told
	reloaded time.Time                // when systemd last reloaded
	total    map[telemetry.Drift]uint64
	mended   map[telemetry.Drift]uint64 // of total, those that were repaired
	repairs  telemetry.Histogram
}

// drift is one deviation.
type drift struct {
	cgroup.Target
	retry.Deviation
	before   cgroup.Current
	after    cgroup.State
	noticed  time.Time
	heard    bool // by the watcher; else by a look at everything
	witness  *recordedWrite
	repaired bool
}

func newDrifts() *driftTracker {
	return &driftTracker{
		heard:   make(map[cgroup.Path]time.Time),
		records: make(map[string]cri.Resources),
		total:   make(map[telemetry.Drift]uint64),
		mended:  make(map[telemetry.Drift]uint64),
		repairs: telemetry.NewHistogram(),
	}
}

// noteEvent notes that somebody has written to a cgroup.
func (d *driftTracker) noteEvent(p cgroup.Path, at time.Time) {
	if _, before := d.heard[p]; !before {
		d.heard[p] = at
	}
}

// followDrifts takes over what the last reading has found.
func (l *Loop) followDrifts(now time.Time) {
	found := l.cache.TakeExternal()
	if l.Observes {
		found = nil // nothing is repaired
	}
	for _, f := range found {
		p := f.Target.Path
		at, heard := l.drifts.heard[p]
		if !heard {
			at = now
		}
		if l.unidentified.has(p) || l.inventory.IsAwaited(f.Target) && f.Target.Unit == "" {
			continue // it is being made, by whoever writes
		}
		deviations := deviations(f.Target, f.Before.State, f.After)
		for _, dev := range deviations {
			l.log.Warn("somebody else has written to a cgroup", "cgroup", p, "property", dev.Property, "was", dev.Was, "is", dev.Is)
			l.noteAt(p, history.Event{Kind: history.Drift, Property: dev.Property, Before: dev.Was, Value: dev.Is})
			l.drifts.open = append(l.drifts.open, &drift{Target: f.Target, Deviation: dev, before: f.Before, after: f.After, noticed: at, heard: heard})
			l.backoffs.NoteExternalWrite(p, dev, now)
		}
		if len(deviations) > 0 {
			l.readRecord(f.Target)
		}
		if f.Target.Around {
			l.fetchUnit(l.inventory.UnitAt(p)) // an administrator may have given it CPUs for good
		}
	}
	clear(l.drifts.heard)
}

// readRecord asks runtime and systemd what they have on record, before the daemon
// repairs that.
func (l *Loop) readRecord(t cgroup.Target) {
	l.workers.Updates.Submit(string(t.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, witnessPatience)
		defer cancel()
		w := recordedWrite{path: t.Path, id: t.Container, unit: hostenv.UnitState(ctx, l.Units, t.Path)}
		if t.Container != "" {
			c, err := l.Runtime.ContainerStatus(ctx, t.Container)
			w.record, w.known = c.Recorded, err == nil && c.Detailed
		}
		return recordRead{w}
	})
}

// recordedWrite is what runtime and systemd have on record after a foreign write.
type recordedWrite struct {
	path   cgroup.Path
	id     string
	unit   cgroup.UnitState
	record cri.Resources
	known  bool // record
}

// recordRead is the event.
type recordRead struct{ recordedWrite }

func (recordRead) scope(*Loop) scope { return scopeOne }

func (e recordRead) apply(l *Loop) {
	for _, d := range l.drifts.open {
		if d.Path == e.path && d.witness == nil {
			d.witness = &e.recordedWrite
		}
	}
	cpus, err := cpuset.Parse(e.record.CPUs)
	l.cache.ConfirmRecord(e.path, cpus, e.known && err == nil, e.unit)
}

// withoutEvent are the containers of which a cpuset was overwritten and nobody has told yet
// whether the record was, too. An update over CRI would be for nothing if it was not,
// and writes weight and quota as the runtime has them: it waits for the answer.
func (d *driftTracker) withoutEvent() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, o := range d.open {
		if o.Container != "" && o.Property == cgroup.FileCPUs && o.witness == nil {
			all[o.Path] = true
		}
	}
	return all
}

// changed are the cgroups of which somebody else has changed a property that has not been
// repaired.
func (d *driftTracker) changed(property string) map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for _, o := range d.open {
		if o.Property == property && !o.repaired {
			all[o.Path] = true
		}
	}
	return all
}

// unrepaired counts the drifts that are found and not repaired yet.
func (d *driftTracker) unrepaired() int {
	n := 0
	for _, o := range d.open {
		if !o.repaired {
			n++
		}
	}
	return n
}

// settleDrifts counts the drifts that are repaired, or whose cgroup is gone.
func (l *Loop) settleDrifts(now time.Time) {
	told := make(map[string]cri.Resources)
	l.drifts.open = slices.DeleteFunc(l.drifts.open, func(d *drift) bool {
		c := l.cache.Current(d.Path)
		i := slices.IndexFunc(l.status.targets, func(t cgroup.Target) bool { return t.Path == d.Path }) // which may be another by now
		there := c.Exists && i >= 0
		if there && !d.repaired && !l.cache.IsStale(d.Path) && !d.lasts(l.status.targets[i], c.State) {
			d.repaired = true
			if d.heard {
				l.drifts.repairs.Observe(now.Sub(d.noticed).Seconds())
			}
		}
		if there && (!d.repaired || d.witness == nil) {
			return false
		}
		if d.witness != nil && d.witness.known {
			told[d.witness.id] = d.witness.record
		}
		kind := telemetry.Drift{Cause: l.causeOf(d), Property: d.Property}
		l.drifts.total[kind]++
		if d.repaired {
			l.drifts.mended[kind]++
		}
		return true
	})
	maps.Copy(l.drifts.records, told)
	maps.DeleteFunc(l.drifts.records, func(id string, _ cri.Resources) bool { return l.inventory.Container(id) == nil })
}

// lasts says that the property is still not as planned; others of the cgroup may be
// left to somebody else for now.
func (d *drift) lasts(t cgroup.Target, now cgroup.State) bool {
	return slices.ContainsFunc(deviations(t, d.before.State, now), func(dev retry.Deviation) bool { return dev.Property == d.Property })
}

// causeOf gathers the evidence.
func (l *Loop) causeOf(d *drift) telemetry.Cause {
	var e evidence
	e.reload = d.noticed.Sub(l.drifts.reloaded).Abs() <= reloadMargin
	if w := d.witness; w != nil {
		e.unitKnown = d.before.Unit.Known && w.unit.Known
		e.unitHad, e.unitHas = inUnit(d.Property, d.before.Unit, d.after), inUnit(d.Property, w.unit, d.after)
		if c := l.inventory.Container(d.Container); c != nil && w.known {
			before, asked := l.drifts.records[w.id]
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
	l.log.Info("foreign write is repaired", "cgroup", d.Path, "property", d.Property, "cause", cause)
	l.noteAt(d.Path, history.Event{Kind: history.Repaired, Property: d.Property, Before: d.Is, Cause: string(cause)})
	return cause
}

// evidence is what is known of a foreign write. inotify does not tell who wrote, so
// this is all there is. "The value" is the one that was found in place of the
// daemon's; had is before the write, has after it.
type evidence struct {
	// recordKnown says that the runtime told what it has on record before and after.
	recordKnown, recordHad, recordHas bool
	// unitKnown says the same of systemd.
	unitKnown, unitHad, unitHas bool
	// reload says that systemd has reloaded its units about then.
	reload bool
	// kubelets says that this is the slice of a pod, and the value the one that was
	// there before the daemon's.
	kubelets bool
}

// cause tells who has written. Whatever else could explain the evidence makes it
// unknown.
func (e evidence) cause() telemetry.Cause {
	switch {
	case e.recordKnown && !e.recordHad && e.recordHas:
		return telemetry.CauseRuntime // nobody else can change its record
	case e.unitKnown && e.unitHad && e.unitHas && e.reload:
		return telemetry.CauseSystemd // nobody told it anything, and it has applied what it had
	case e.unitKnown && !e.unitHad && e.unitHas && e.kubelets && !e.reload:
		return telemetry.CauseKubelet // an administrator would not know this value
	}
	return telemetry.CauseUnknown
}

// deviations compare a cgroup before and after somebody has written to it.
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
		add(cgroup.FileMax, undo.MaxValue(before.Quota, before.Period), undo.MaxValue(after.Quota, after.Period))
	}
	return all
}

// inUnit says that systemd holds the value that a property has in a cgroup.
func inUnit(property string, u cgroup.UnitState, st cgroup.State) bool {
	const unsetWeight = 100 // what systemd writes for a weight that is not set
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

// inRecord says the same of what the runtime has on record.
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
