package tune

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Period is the time between two looks at the host while something is wished:
// nothing tells of an interrupt that is new, or whose mask somebody has written.
const Period = 10 * time.Second

// Options are what a Tuner is made with.
type Options struct {
	Sources []Source
	Undo    Undo
	// Observe says that nothing is to be written.
	Observe bool
	// Changed is called after a pass that has changed the View, from the Tuner's goroutine.
	// Optional.
	Changed func()
	Log     *slog.Logger
}

// Tuner keeps knobs as they are wished.
type Tuner struct {
	o    Options
	wake chan struct{}
	view atomic.Pointer[View]

	mu        sync.Mutex // guards asked
	requested *request

	// What follows is Run's alone.
	loaded      bool
	state       State
	records     []Record
	saved       []Record // on disk
	settings    request
	refused     map[Knob]refusal
	conflicts   map[Knob]*conflict
	writes      map[Count]uint64
	loggedStuck string // in the log
	loggedError string // likewise
}

// request is what a Tuner was last told.
type request struct {
	wish      Wish
	machine   Machine
	exclusive cpuset.Set
}

func (a *request) equal(b *request) bool {
	return a.wish.Equal(b.wish) && a.machine.Possible.Equal(b.machine.Possible) && a.machine.Online.Equal(b.machine.Online) && a.exclusive.Equal(b.exclusive)
}

// refusal is a change that the kernel did not make. It is not asked again for the same
// change of the same thing.
type refusal struct {
	id, from, to string
	why          Why
	text         string
	at           time.Time
}

// Count is a sort of write.
type Count struct {
	Kind   Kind
	Failed bool
}

// View is what a Tuner has done. It is not changed once published.
type View struct {
	// At is the end of the pass.
	At   time.Time
	Wish Wish
	// Moved counts the knobs that hold a value of the daemon's, by kind.
	Moved map[Kind]int
	// Writes counts since the start.
	Writes map[Count]uint64
	// Stuck are the knobs that are not as wished, those apart of which nothing comes.
	Stuck []Stuck
	// Pending are changes that are not made because the daemon only observes, or
	// because the undo record cannot be written.
	Pending []Change
	// Problems are for operators: each is a code and a sentence.
	Problems []Problem
}

// Problem is something that somebody has to do something about.
type Problem struct{ Code, Text string }

// Codes of problems.
const (
	// CodeUnread: something of the host's settings cannot be read.
	CodeUnread = "HostSettingsUnread"
	// CodeUndo: the undo record cannot be written or read.
	CodeUndo = "HostSettingsUndo"
	// CodeFailed: something cannot be written, and not because of what it is.
	CodeFailed = "HostSettingsFailed"
	// CodeContested: somebody else writes what the daemon writes.
	CodeContested = "HostSettingsContested"
	// CodeNoCPULeft: all CPUs are to be left alone.
	CodeNoCPULeft = "HostSettingsNoCPULeft"
	// CodeBalancer: irqbalance cannot be told.
	CodeBalancer = "IrqbalanceUnreachable"
)

// New makes a Tuner. It does nothing before Run, and Run nothing before the first Set.
func New(o Options) *Tuner {
	t := &Tuner{
		o: o, wake: make(chan struct{}, 1),
		refused: make(map[Knob]refusal), conflicts: make(map[Knob]*conflict), writes: make(map[Count]uint64),
	}
	t.view.Store(&View{})
	return t
}

// Set says what is wished from now on, on which machine. Exclusive are all CPUs that owners
// can have: with a lost undo record they tell the daemon's traces from others'. Set never
// waits, and may be called from any goroutine.
func (t *Tuner) Set(w Wish, m Machine, exclusive cpuset.Set) {
	t.mu.Lock()
	before := t.requested
	next := &request{w, m, exclusive}
	t.requested = next
	t.mu.Unlock()
	if before != nil && before.equal(next) {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// View is what the last pass has left.
func (t *Tuner) View() *View { return t.view.Load() }

// Run keeps the knobs until ctx ends. They stay as they are then, as containers do.
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

// pass looks, plans, records, writes and looks again. It says whether there is to be
// another one although nobody asks.
func (t *Tuner) pass(ctx context.Context) (again bool) {
	t.mu.Lock()
	t.settings = *t.requested
	t.mu.Unlock()
	v := &View{Wish: t.settings.wish}
	defer t.publish(v)
	t.load(v)
	if t.settings.wish.Empty() && len(t.records) == 0 && t.state != Lost {
		clear(t.refused)
		clear(t.conflicts)
		return false
	}
	seen, unread, err := t.read(ctx)
	t.noteReadError(v, err)
	if t.state == Lost {
		t.records, t.state = Presume(seen, t.settings.exclusive, t.settings.machine), Known
		if len(t.records) > 0 {
			t.o.Log.Warn("what the host's settings were is not known: where some of the exclusive CPUs are missing, it will be the default of the kernel again", "settings", len(t.records))
		}
	}
	d := Plan(t.settings.wish, seen, t.records, t.settings.machine, unread)
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
		v.Problems = append(v.Problems, Problem{CodeUndo, fmt.Sprintf("interrupts and the like stay as they are, because what they were could not be written down: %v", err)})
		t.summarize(v, seen, d)
		return true
	}
	if len(changes) > 0 && ctx.Err() == nil {
		made := t.write(ctx, changes, now)
		if seen, unread, err = t.read(ctx); err != nil {
			t.noteReadError(v, err)
		}
		d = Plan(t.settings.wish, seen, t.records, t.settings.machine, unread)
		t.noteNotTaken(d.Changes, made, now)
		t.records = recordsAfter(d, made)
		if err := t.save(); err != nil {
			v.Problems = append(v.Problems, Problem{CodeUndo, err.Error()})
		}
	}
	t.summarize(v, seen, d)
	return !t.settings.wish.Empty() || len(t.records) > 0
}

// load reads the undo record, once.
func (t *Tuner) load(v *View) {
	if t.loaded {
		return
	}
	t.loaded = true
	var err error
	if t.records, t.state, err = t.o.Undo.Load(); err != nil {
		t.o.Log.Error("undo record of the host's settings", "error", err)
		v.Problems = append(v.Problems, Problem{CodeUndo, err.Error()})
		if !t.o.Observe {
			if err := t.o.Undo.setAside(); err != nil {
				t.o.Log.Error("undo record cannot be set aside", "error", err)
			}
		}
	}
	t.saved = slices.Clone(t.records)
}

// save makes the records durable if they are not.
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

// read asks all sources. The error is about what could not be read; unread are the kinds
// of which something may be missing.
func (t *Tuner) read(ctx context.Context) (seen []Observed, unread []Kind, err error) {
	sources := slices.DeleteFunc(slices.Clone(t.o.Sources), func(s Source) bool {
		return t.state != Lost && !isNeeded(s, t.settings.wish, t.records)
	})
	return readAll(ctx, sources)
}

// readAll asks sources.
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

// isNeeded says that something is wished of a source's knobs, or on record.
func isNeeded(s Source, w Wish, records []Record) bool {
	return slices.ContainsFunc(s.Kinds(), func(k Kind) bool {
		if k.isMask() && !w.excluded(k).IsEmpty() || slices.ContainsFunc(records, func(r Record) bool { return r.Kind == k }) {
			return true
		}
		for knob := range w.Values {
			if knob.Kind == k {
				return true
			}
		}
		return false
	})
}

// noteReadError tells of what could not be read.
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
		t.o.Log.Warn("settings of the host", "error", text)
	}
	t.loggedError = text
}

// recordsAfter are the records of a decision of which only some changes are made: what the
// others hold stays, and nothing is taken from it that would have to be given back.
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

// due leaves out what was refused before, and what is contested.
func (t *Tuner) due(changes []Change, now time.Time) []Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c Change) bool {
		if r, was := t.refused[c.Knob]; was && r.isOf(c) && !r.isExpired(now) {
			return true
		}
		fight := t.conflicts[c.Knob]
		return fight != nil && now.Before(fight.until) && !c.Back
	})
}

// isExpired says that it may be over. What was accepted and is not there may have been taken
// back by somebody else, once: it is tried again, but seldom.
func (r refusal) isExpired(now time.Time) bool {
	return r.why.isTemporary() || r.why == NotTaken && now.Sub(r.at) >= lastConflictPause
}

func (r refusal) isOf(c Change) bool { return r.id == c.ID && r.from == c.From && r.to == c.To }

// write makes changes, and returns those that nobody refused.
func (t *Tuner) write(ctx context.Context, changes []Change, now time.Time) (made []Change) {
	number := make(map[Kind]int)
	for _, c := range changes {
		if ctx.Err() != nil {
			return made
		}
		if (c.Foreign || t.isOverwritten(c)) && !c.Back && t.noteExternalWrite(c, now) {
			continue
		}
		err := t.source(c.Kind).Write(ctx, c.Knob, c.To)
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
		t.o.Log.Info("settings of the host are changed", "kind", string(k), "number", number[k], "quiet", t.settings.wish.Quiet, "no_kernel", t.settings.wish.NoKernel)
	}
	return made
}

func (t *Tuner) source(k Kind) Source {
	i := slices.IndexFunc(t.o.Sources, func(s Source) bool { return slices.Contains(s.Kinds(), k) })
	return t.o.Sources[i] // the knob has come from one of them
}

// isOverwritten says that a knob has the value that somebody else has just written to it. He may
// have been so quick that nobody saw it as it was wished.
func (t *Tuner) isOverwritten(c Change) bool {
	f := t.conflicts[c.Knob]
	return f != nil && f.repaired && f.value == c.From
}

// noteNotTaken notes what was written without an error and is not there, though nobody else is
// known to write it.
func (t *Tuner) noteNotTaken(left, made []Change, now time.Time) {
	for _, c := range left {
		was := slices.ContainsFunc(made, func(m Change) bool { return m.Knob == c.Knob && m.To == c.To })
		if _, refused := t.refused[c.Knob]; was && !refused && !t.isOverwritten(c) {
			t.refused[c.Knob] = refusal{c.ID, c.From, c.To, NotTaken, fmt.Sprintf("%q was accepted, and it is %q", c.To, c.From), now}
		}
	}
}
