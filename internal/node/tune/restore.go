package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Restoring is what Restore needs.
type Restoring struct {
	Sources []Source
	Undo    Undo
	Machine Machine
	// Exclusive are all CPUs that owners can have: where the record is lost they tell
	// the daemon's traces from others'.
	Exclusive cpuset.Set
}

// Report says what Restore has done, or would do.
type Report struct {
	// State is what the undo record was; Note is for people, where it says something.
	State State  `json:"state"`
	Note  string `json:"note,omitempty"`
	// Restored are the knobs that hold now what they are to hold; with a dry run those
	// that would be written.
	Restored []Change `json:"restored"`
	// Gone counts the knobs on record that are not there any more.
	Gone int `json:"gone"`
	// Differs are the knobs that do not hold what they did before the daemon.
	Differs []Difference `json:"differs"`
}

// Difference is a knob that does not hold its original.
type Difference struct {
	Knob
	Label    string `json:"label,omitempty"`
	Original string `json:"original"`
	Now      string `json:"now"`
	// Harmless says that it has what the daemon took from it, and is something else because
	// somebody else has written it.
	Harmless bool   `json:"harmless"`
	Reason   string `json:"reason"`
}

// Restore gives all knobs back, reads them again and says what differs. No daemon may
// run. What cannot be put back stays on record. With dryRun nothing is written.
func Restore(ctx context.Context, o Restoring, dryRun bool) (Report, error) {
	records, state, loadErr := o.Undo.Load()
	r := Report{State: state}
	switch state {
	case None:
		return r, nil
	case EarlierBoot:
		r.Note = "the machine has booted since interrupts and the like were changed; nothing of it is left"
		if dryRun {
			return r, nil
		}
		return r, o.Undo.Save(nil)
	case Lost:
		r.Note = loadErr.Error() + ": the kernel's defaults stand in for what it said"
	case Known: // what is not on record was never touched, be it readable or not
		o.Sources = slices.DeleteFunc(slices.Clone(o.Sources), func(s Source) bool { return !isNeeded(s, Wish{}, records) })
	}
	seen, unread, readErr := readAll(ctx, o.Sources)
	if state == Lost {
		records = Presume(seen, o.Exclusive, o.Machine)
	}
	d := Plan(Wish{}, seen, records, o.Machine, unread)
	r.Gone = countGone(records, seen, unread)
	if dryRun {
		r.Restored = d.Changes
		return r, readErr
	}
	failed := writeAll(ctx, o.Sources, d.Changes)
	after, unread, err := readAll(ctx, o.Sources)
	readErr = errors.Join(readErr, err)
	left := Plan(Wish{}, after, records, o.Machine, unread)
	r.compare(d.Changes, after, records, failed)
	return r, errors.Join(readErr, o.Undo.Save(left.Records))
}

// writeAll makes changes, and returns why some could not be made. Those are tried twice:
// what one knob can be may follow from another one, as an energy preference from its
// governor.
func writeAll(ctx context.Context, sources []Source, changes []Change) (failed map[Knob]error) {
	for range 2 {
		left := changes
		changes, failed = nil, make(map[Knob]error)
		for _, c := range left {
			i := slices.IndexFunc(sources, func(s Source) bool { return slices.Contains(s.Kinds(), c.Kind) })
			if err := sources[i].Write(ctx, c.Knob, c.To); err != nil && !isGone(err) {
				failed[c.Knob] = err
				changes = append(changes, c)
			}
		}
	}
	return failed
}

// countGone counts records of knobs that are not there.
func countGone(records []Record, seen []Observed, unread []Kind) int {
	n := 0
	for _, r := range records {
		is := func(o Observed) bool { return o.Knob == r.Knob && (o.ID == r.ID || o.Asleep) }
		if !slices.Contains(unread, r.Kind) && !slices.ContainsFunc(seen, is) {
			n++
		}
	}
	return n
}

// compare holds what the knobs are now against what they were to be.
func (r *Report) compare(changes []Change, after []Observed, records []Record, failed map[Knob]error) {
	originals := make(map[Knob]Record, len(records))
	for _, rec := range records {
		originals[rec.Knob] = rec
	}
	now := make(map[Knob]Observed, len(after))
	for _, o := range after {
		now[o.Knob] = o
	}
	for _, rec := range records {
		if now[rec.Knob].Asleep {
			r.Differs = append(r.Differs, Difference{
				Knob: rec.Knob, Original: rec.Original, Now: rec.Wrote, Reason: "it cannot be written while its CPUs are offline; set them online, and restore again",
			})
		}
	}
	for _, c := range changes {
		o, there := now[c.Knob]
		if !there || o.ID != c.ID {
			r.Gone++
			continue
		}
		was, known := originals[c.Knob]
		d := Difference{Knob: c.Knob, Label: c.Label, Original: c.To, Now: o.Value}
		if known && was.ID == c.ID {
			d.Original = was.Original
		}
		switch err := failed[c.Knob]; {
		case err != nil:
			d.Reason = fmt.Sprintf("write %q: %v", c.To, err)
		case o.Value != c.To:
			d.Reason = fmt.Sprintf("%q was accepted", c.To)
		case o.Value != d.Original:
			d.Harmless = true
			d.Reason = fmt.Sprintf("somebody else had written %q since; what the daemon took is back", c.From)
			r.Restored = append(r.Restored, c)
		default:
			r.Restored = append(r.Restored, c)
			continue
		}
		r.Differs = append(r.Differs, d)
	}
}

// Preview is what a Tuner would do first, from the undo record as it is.
func Preview(ctx context.Context, o Restoring, w Wish) (Decision, error) {
	records, state, err := o.Undo.Load()
	sources := slices.DeleteFunc(slices.Clone(o.Sources), func(s Source) bool { return !isNeeded(s, w, records) })
	seen, unread, readErr := readAll(ctx, sources)
	if state == Lost {
		records = Presume(seen, o.Exclusive, o.Machine)
	}
	return Plan(w, seen, records, o.Machine, unread), errors.Join(err, readErr)
}
