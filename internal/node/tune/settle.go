package tune

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Two who write different values in turn bring neither anything: after maxRepairs in
// contestTime the daemon leaves a knob alone, from firstTruce on and twice as long each
// time, up to lastTruce.
const (
	maxRepairs         = 3
	conflictWindow     = 2 * time.Minute
	firstConflictPause = time.Minute
	lastConflictPause  = 10 * time.Minute
)

// conflict is a knob that somebody else writes, too.
type conflict struct {
	writes []time.Time // of the writes, the latest maxRepairs+1
	pause  time.Duration
	until  time.Time // the end of the truce
	value  string    // what the other one wrote
	// repaired says that the daemon has written since.
	repaired bool
}

// noteExternalWrite notes a foreign write. It says that the knob is to be left alone.
func (t *Tuner) noteExternalWrite(c Change, now time.Time) bool {
	f := t.conflicts[c.Knob]
	if f == nil {
		f = &conflict{}
		t.conflicts[c.Knob] = f
	}
	f.value, f.repaired = c.From, false
	if f.writes = append(f.writes, now); len(f.writes) > maxRepairs+1 {
		f.writes = f.writes[1:]
	}
	again := f.pause > 0 && now.Sub(f.until) < conflictWindow
	if !again && (len(f.writes) <= maxRepairs || now.Sub(f.writes[0]) >= conflictWindow) {
		return false
	}
	f.pause = min(max(2*f.pause, firstConflictPause), lastConflictPause)
	f.until = now.Add(f.pause)
	t.o.Log.Warn("somebody else writes a setting of the host whenever it is as wished; it is left alone for a while", "knob", c.String(), "device", c.Label, "value", c.From, "wished", c.To, "until", f.until)
	return true
}

func (f *conflict) isOver(now time.Time) bool {
	return now.Sub(f.writes[len(f.writes)-1]) > conflictWindow && now.Sub(f.until) > conflictWindow
}

// summarize tells what has become of the knobs: seen is what they hold, and d what would have
// to be done still.
func (t *Tuner) summarize(v *View, seen []Observed, d Decision) {
	now := time.Now()
	shown := make(map[Knob]Observed, len(seen))
	for _, o := range seen {
		shown[o.Knob] = o
	}
	v.Moved = make(map[Kind]int)
	for _, r := range d.Records {
		if o, there := shown[r.Knob]; there && r.Original != r.Wrote && o.Value == r.Wrote {
			v.Moved[r.Kind]++
		}
	}
	maps.DeleteFunc(t.refused, func(k Knob, _ refusal) bool { _, there := shown[k]; return !there })
	maps.DeleteFunc(t.conflicts, func(k Knob, f *conflict) bool { return f.isOver(now) })
	stuck := slices.Clone(d.Stuck)
	for _, c := range d.Changes {
		s := Stuck{Knob: c.Knob, Label: c.Label, Value: c.From}
		if r, was := t.refused[c.Knob]; was && r.isOf(c) {
			s.Why, s.Text = r.why, r.text
			stuck = append(stuck, s)
		} else if f := t.conflicts[c.Knob]; f != nil && now.Before(f.until) {
			s.Why = Contested
			s.Text = fmt.Sprintf("somebody else writes %q whenever it is %q; it is left alone until %s", f.value, c.To, f.until.Format(time.RFC3339))
			stuck = append(stuck, s)
		}
	}
	slices.SortFunc(stuck, func(a, b Stuck) int { return compare(a.Knob, b.Knob) })
	v.Stuck = slices.DeleteFunc(stuck, func(s Stuck) bool { return shown[s.Knob].Unused })
	v.Problems = append(v.Problems, problemsOf(v.Stuck)...)
	t.logStuck(v.Stuck)
}

// problemsOf are the reasons for which somebody has to do something. That some interrupts
// cannot be moved is normal.
func problemsOf(all []Stuck) []Problem {
	var problems []Problem
	for _, of := range []struct {
		why          Why
		code, remedy string
	}{
		{NoCPULeft, CodeNoCPULeft, "leave a CPU that interrupts may use: a pod that does not ask to be free of them, or a CPU outside of the guaranteed pool"},
		{Failed, CodeFailed, "if it is for want of a right, let the daemon write it: CAP_NET_ADMIN, CAP_SYS_NICE, and /proc/irq and /sys/devices that are not read-only"},
		{Contested, CodeContested, "find out who writes it (irqbalance, tuned, a script of the driver) and stop one of the two"},
	} {
		var names []string
		text := ""
		for _, s := range all {
			if s.Why == of.why {
				names, text = append(names, name(s)), s.Text
			}
		}
		if len(names) > 0 {
			problems = append(problems, Problem{of.code, fmt.Sprintf("%s: %s; %s", list(names), text, of.remedy)})
		}
	}
	return problems
}

func name(s Stuck) string {
	if s.Label == "" {
		return s.String()
	}
	return s.String() + " (" + s.Label + ")"
}

// list names the first of many.
func list(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// logStuck says in the log what is not as wished, when that has changed.
func (t *Tuner) logStuck(all []Stuck) {
	var names []string
	for _, s := range all {
		names = append(names, name(s)+": "+string(s.Why))
	}
	if text := strings.Join(names, ", "); text != t.loggedStuck {
		if t.loggedStuck = text; text != "" {
			t.o.Log.Info("settings of the host that cannot be as wished", "number", len(names), "which", list(names))
		}
	}
}

// publish makes the pass visible.
func (t *Tuner) publish(v *View) {
	before := *t.view.Load()
	v.At, v.Writes = before.At, maps.Clone(t.writes)
	changed := !reflect.DeepEqual(*v, before)
	v.At = time.Now()
	if t.view.Store(v); changed && t.o.Changed != nil {
		t.o.Changed()
	}
}
