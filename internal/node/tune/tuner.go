package tune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/conflict"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Period is the time between two passes while knobs have desired values or records. The
// kernel sends no notification of new interrupts, or of external writes to masks.
const Period = 10 * time.Second

// Options configures a Tuner.
type Options struct {
	Sources []Source
	Undo    Undo
	// Observe prevents all writes.
	Observe bool
	// Changed is called on the Tuner's goroutine if a pass has changed the View. Optional.
	Changed func()
	Log     *slog.Logger
}

// Tuner keeps knobs in the desired state.
type Tuner struct {
	o    Options
	wake chan struct{}
	view atomic.Pointer[View]

	requested atomic.Pointer[request]

	// The fields below belong to the goroutine of Run.
	loaded      bool
	state       State
	records     []Record
	saved       []Record // on disk
	settings    request
	refused     map[Knob]refusal
	conflicts   map[Knob]*writeConflict
	writes      map[Count]uint64
	loggedStuck string
	loggedError string
}

type request struct {
	desired   Desired
	machine   Machine
	exclusive cpuset.Set
}

func (a *request) equal(b *request) bool {
	return a.desired.Equal(b.desired) && a.machine.Possible.Equal(b.machine.Possible) && a.machine.Online.Equal(b.machine.Online) && a.exclusive.Equal(b.exclusive)
}

// refusal is a failed change. Unless isExpired, the same change is not tried again.
type refusal struct {
	id, from, to string
	why          Why
	text         string
	at           time.Time
}

// Count is a key of View.Writes.
type Count struct {
	Kind   Kind
	Failed bool
}

// View is the result of a pass. It is not changed after publication.
type View struct {
	// At is the end of the pass.
	At      time.Time
	Desired Desired
	// Moved is the number of knobs that have a changed value of the daemon, by kind.
	Moved map[Kind]int
	// Writes is the number of writes since the start.
	Writes map[Count]uint64
	// Stuck contains the knobs without their desired value, except unused ones.
	Stuck []Stuck
	// Pending contains changes that wait for mode: enforce, or for the undo record.
	Pending  []Change
	Problems []Problem
}

// Problem is a condition that requires an action of the operator.
type Problem struct{ Code, Text string }

// Codes of problems.
const (
	// CodeUnread means that a setting cannot be read.
	CodeUnread = "HostSettingsUnread"
	// CodeUndo means that the undo record cannot be read or written.
	CodeUndo = "HostSettingsUndo"
	// CodeFailed means that a setting cannot be written for the reason Failed.
	CodeFailed = "HostSettingsFailed"
	// CodeContested means a write conflict.
	CodeContested = "HostSettingsContested"
	// CodeNoCPULeft means that all online CPUs are excluded.
	CodeNoCPULeft = "HostSettingsNoCPULeft"
	// CodeBalancer means that irqbalance has no socket.
	CodeBalancer = "IrqbalanceUnreachable"
)

// New returns a Tuner. Run does nothing before the first Set.
func New(o Options) *Tuner {
	t := &Tuner{
		o: o, wake: make(chan struct{}, 1),
		refused: make(map[Knob]refusal), conflicts: make(map[Knob]*writeConflict), writes: make(map[Count]uint64),
	}
	t.view.Store(&View{})
	return t
}

// Set sets the desired state and the machine. exclusive are all CPUs that can become
// exclusive. [Presume] uses them after the loss of the undo record. Set does not block, and
// any goroutine may call it.
func (t *Tuner) Set(w Desired, m Machine, exclusive cpuset.Set) {
	next := &request{w, m, exclusive}
	if before := t.requested.Swap(next); before != nil && before.equal(next) {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// View returns the result of the last pass.
func (t *Tuner) View() *View { return t.view.Load() }

// Run makes passes until ctx ends. It does not restore knobs at the end, so that a restart of
// the daemon changes nothing.
func (t *Tuner) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		}
		if t.pass(ctx) {
			timer.Reset(Period)
		} else {
			timer.Stop()
		}
	}
}

// pass reads, plans, saves records, writes and reads again. again requests a pass after Period.
func (t *Tuner) pass(ctx context.Context) (again bool) {
	t.settings = *t.requested.Load()
	v := &View{Desired: t.settings.desired}
	defer t.publish(v)
	t.load(v)
	if t.settings.desired.Empty() && len(t.records) == 0 && t.state != Lost {
		clear(t.refused)
		clear(t.conflicts)
		return false
	}
	seen, unread, err := t.read(ctx)
	t.noteReadError(v, err)
	if t.state == Lost {
		t.records, t.state = Presume(seen, t.settings.exclusive, t.settings.machine), Known
		if len(t.records) > 0 {
			t.o.Log.Warn("undo record of host settings is lost; masks that lack only exclusive CPUs return to the kernel's default", "settings", len(t.records))
		}
	}
	d := Plan(t.settings.desired, seen, t.records, t.settings.machine, unread)
	now := time.Now()
	changes := t.due(d.Changes, now)
	if t.o.Observe {
		v.Pending = changes
		t.summarize(v, seen, d)
		return true
	}
	t.records = recordsAfter(d, changes)
	if err := t.save(); err != nil {
		v.Pending = changes
		v.Problems = append(v.Problems, Problem{CodeUndo, fmt.Sprintf("host settings do not change because the undo record cannot be written: %v", err)})
		t.summarize(v, seen, d)
		return true
	}
	if len(changes) > 0 && ctx.Err() == nil {
		made := t.write(ctx, changes, now)
		if seen, unread, err = t.read(ctx); err != nil {
			t.noteReadError(v, err)
		}
		d = Plan(t.settings.desired, seen, t.records, t.settings.machine, unread)
		t.noteNotTaken(d.Changes, made, now)
		t.records = recordsAfter(d, made)
		if err := t.save(); err != nil {
			v.Problems = append(v.Problems, Problem{CodeUndo, err.Error()})
		}
	}
	t.summarize(v, seen, d)
	return !t.settings.desired.Empty() || len(t.records) > 0
}

// load reads the undo record in the first pass.
func (t *Tuner) load(v *View) {
	if t.loaded {
		return
	}
	t.loaded = true
	var err error
	if t.records, t.state, err = t.o.Undo.Load(); err != nil {
		t.o.Log.Error("cannot use the undo record of host settings", "error", err)
		v.Problems = append(v.Problems, Problem{CodeUndo, err.Error()})
		if !t.o.Observe {
			if err := t.o.Undo.setAside(); err != nil {
				t.o.Log.Error("cannot rename the unusable undo record", "error", err)
			}
		}
	}
	t.saved = slices.Clone(t.records)
}

func (t *Tuner) save() error {
	if slices.Equal(t.records, t.saved) {
		return nil
	}
	if err := t.o.Undo.Save(t.records); err != nil {
		return err
	}
	t.saved = slices.Clone(t.records)
	return nil
}

// read reads the needed sources. unread holds the kinds of failed sources.
func (t *Tuner) read(ctx context.Context) (seen []Observed, unread []Kind, err error) {
	if t.state == Lost {
		return readAll(ctx, t.o.Sources)
	}
	return readAll(ctx, needed(t.o.Sources, t.settings.desired, t.records))
}

func readAll(ctx context.Context, sources []Source) (seen []Observed, unread []Kind, err error) {
	var errs []error
	for _, s := range sources {
		some, err := s.Read(ctx)
		if err != nil {
			unread = append(unread, s.Kinds()...)
			errs = append(errs, err)
		}
		seen = append(seen, some...)
	}
	return seen, unread, errors.Join(errs...)
}

// needed returns the sources with knobs that have desired values or records.
func needed(all []Source, w Desired, records []Record) []Source {
	kinds := make(map[Kind]bool)
	for _, k := range maskKinds() {
		kinds[k] = !w.excluded(k).IsEmpty()
	}
	for knob := range w.Values {
		kinds[knob.Kind] = true
	}
	for _, r := range records {
		kinds[r.Kind] = true
	}
	return slices.DeleteFunc(slices.Clone(all), func(s Source) bool {
		return !slices.ContainsFunc(s.Kinds(), func(k Kind) bool { return kinds[k] })
	})
}

// noteReadError adds a problem for an error of read, and logs a new error.
func (t *Tuner) noteReadError(v *View, err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
		code := CodeUnread
		if errors.Is(err, ErrNoSocket) {
			code = CodeBalancer
		}
		if p := (Problem{code, text}); !slices.Contains(v.Problems, p) { // a pass reads twice
			v.Problems = append(v.Problems, p)
		}
	}
	if text != t.loggedError && text != "" {
		t.o.Log.Warn("cannot read host settings", "error", text)
	}
	t.loggedError = text
}

// recordsAfter returns the records of a decision if only some of its changes are made. Wrote
// of the other knobs is their present value: no further CPU counts as removed by the daemon.
func recordsAfter(d Decision, made []Change) []Record {
	records := slices.Clone(d.Records)
	for _, c := range d.Changes {
		if slices.ContainsFunc(made, func(m Change) bool { return m.Knob == c.Knob }) {
			continue
		}
		if i := slices.IndexFunc(records, func(r Record) bool { return r.Knob == c.Knob }); i >= 0 {
			records[i].Wrote, records[i].Before = c.From, ""
		}
	}
	return records
}

// due returns the changes that were not refused before, and do not pause in a conflict.
func (t *Tuner) due(changes []Change, now time.Time) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		if r, was := t.refused[c.Knob]; was && r.isOf(c) && !r.isExpired(now) {
			return true
		}
		f := t.conflicts[c.Knob]
		return f != nil && now.Before(f.Until()) && !c.Back
	})
}

// isExpired reports whether to try again, seldom after NotTaken: the overwrite may be a single one.
func (r refusal) isExpired(now time.Time) bool {
	return r.why != Immovable && (r.why != NotTaken || now.Sub(r.at) >= conflict.LastPause)
}

func (r refusal) isOf(c Change) bool { return r.id == c.ID && r.from == c.From && r.to == c.To }

// write makes changes and returns the successful ones.
func (t *Tuner) write(ctx context.Context, changes []Change, now time.Time) (made []Change) {
	number := make(map[Kind]int)
	for _, c := range changes {
		if ctx.Err() != nil {
			return made
		}
		if (c.Foreign || t.isOverwritten(c)) && !c.Back && t.noteExternalWrite(c, now) {
			continue
		}
		err := write(ctx, t.o.Sources, c)
		switch {
		case err == nil:
			delete(t.refused, c.Knob)
			if f := t.conflicts[c.Knob]; f != nil {
				f.repaired = true
			}
			number[c.Kind]++
			made = append(made, c)
			t.writes[Count{c.Kind, false}]++
			t.o.Log.Debug("wrote", "knob", c.String(), "device", c.Label, "from", c.From, "to", c.To)
		case isGone(err):
			delete(t.refused, c.Knob)
		default:
			t.writes[Count{c.Kind, true}]++
			t.refused[c.Knob] = refusal{c.ID, c.From, c.To, whyOf(c.Kind, err), fmt.Sprintf("write %q: %v", c.To, err), now}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(number)) {
		t.o.Log.Info("changed host settings", "kind", string(k), "number", number[k], "quiet", t.settings.desired.Quiet, "no_kernel", t.settings.desired.NoKernel)
	}
	return made
}

func write(ctx context.Context, sources []Source, c Change) error {
	i := slices.IndexFunc(sources, func(s Source) bool { return slices.Contains(s.Kinds(), c.Kind) })
	return sources[i].Write(ctx, c.Knob, c.To) // one of them has read the knob
}

// isOverwritten detects a process that overwrites a repair before the daemon reads it back.
func (t *Tuner) isOverwritten(c Change) bool {
	f := t.conflicts[c.Knob]
	return f != nil && f.repaired && f.value == c.From
}

// noteNotTaken notes the changes that succeeded without effect, except overwritten ones.
func (t *Tuner) noteNotTaken(left, made []Change, now time.Time) {
	for _, c := range left {
		was := slices.ContainsFunc(made, func(m Change) bool { return m.Knob == c.Knob && m.To == c.To })
		if _, refused := t.refused[c.Knob]; was && !refused && !t.isOverwritten(c) {
			t.refused[c.Knob] = refusal{c.ID, c.From, c.To, NotTaken, fmt.Sprintf("the kernel accepted %q and shows %q", c.To, c.From), now}
		}
	}
}
