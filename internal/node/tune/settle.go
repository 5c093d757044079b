package tune

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/conflict"
)

// maxRepairs is the number of repairs of a knob in two minutes after which repairs pause.
const maxRepairs = 3

// mostNames is the number of settings that a message names.
const mostNames = 8

func limits() conflict.Limits {
	return conflict.Limits{Repairs: maxRepairs, Window: 2 * time.Minute}
}

type writeConflict struct {
	conflict.Writes
	value    string // of the last external write
	repaired bool   // the daemon has written since
}

// noteExternalWrite notes an external write. It reports whether the repairs pause now.
func (t *Tuner) noteExternalWrite(c Change, now time.Time) bool {
	f := t.conflicts[c.Knob]
	if f == nil {
		f = &writeConflict{}
		t.conflicts[c.Knob] = f
	}
	f.value, f.repaired = c.From, false
	if !f.Note(limits(), now) {
		return false
	}
	t.o.Log.Warn("another process keeps changing a host setting; repairs pause", "knob", c.String(), "device", c.Label, "value", c.From, "desired", c.To, "until", f.Until())
	return true
}

// summarize fills v from the values after the writes (seen) and the remaining plan.
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
	maps.DeleteFunc(t.conflicts, func(k Knob, f *writeConflict) bool { return f.IsOver(limits(), now) })
	stuck := slices.Clone(d.Stuck)
	for _, c := range d.Changes {
		s := Stuck{Knob: c.Knob, Label: c.Label, Value: c.From}
		if r, was := t.refused[c.Knob]; was && r.isOf(c) {
			s.Why, s.Text = r.why, r.text
			stuck = append(stuck, s)
		} else if f := t.conflicts[c.Knob]; f != nil && now.Before(f.Until()) {
			s.Why = Contested
			s.Text = fmt.Sprintf("another process writes %q after each repair to %q; repairs pause until %s", f.value, c.To, f.Until().Format(time.RFC3339))
			stuck = append(stuck, s)
		}
	}
	slices.SortFunc(stuck, func(a, b Stuck) int { return compare(a.Knob, b.Knob) })
	v.Stuck = slices.DeleteFunc(stuck, func(s Stuck) bool { return shown[s.Knob].Unused })
	v.Problems = append(v.Problems, problemsOf(v.Stuck)...)
	t.logStuck(v.Stuck)
}

// problemsOf returns problems for reasons that require an action.
func problemsOf(all []Stuck) []Problem {
	var problems []Problem
	for _, of := range []struct {
		why          Why
		code, remedy string
	}{
		{NoCPULeft, CodeNoCPULeft, "keep a CPU for interrupts: outside of the guaranteed pool, or of a pod that accepts them"},
		{Failed, CodeFailed, "if permission is denied, give the daemon CAP_NET_ADMIN and CAP_SYS_NICE, and mount /proc/irq and /sys/devices writable"},
		{Contested, CodeContested, "find the other process (irqbalance, tuned, a script of the driver) and stop one of the two"},
	} {
		var names []string
		text := ""
		for _, s := range all {
			if s.Why == of.why {
				names, text = append(names, name(s)), s.Text
			}
		}
		if len(names) > 0 {
			problems = append(problems, Problem{of.code, fmt.Sprintf("%s: %s; %s", layout.Few(names, mostNames), text, of.remedy)})
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

func (t *Tuner) logStuck(all []Stuck) {
	var names []string
	for _, s := range all {
		names = append(names, name(s)+": "+string(s.Why))
	}
	if text := strings.Join(names, ", "); text != t.loggedStuck {
		if t.loggedStuck = text; text != "" {
			t.o.Log.Info("host settings without their desired value", "number", len(names), "which", layout.Few(names, mostNames))
		}
	}
}

// publish stores the view. It calls Changed if any field except At has changed.
func (t *Tuner) publish(v *View) {
	before := *t.view.Load()
	v.At, v.Writes = before.At, maps.Clone(t.writes)
	changed := !reflect.DeepEqual(*v, before)
	v.At = time.Now()
	if t.view.Store(v); changed && t.o.Changed != nil {
		t.o.Changed()
	}
}
