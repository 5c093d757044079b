package tune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Restoring configures Restore and Preview.
type Restoring struct {
	Sources []Source
	Undo    Undo
	Machine Machine
	// Exclusive contains all CPUs that can become exclusive, for [Presume].
	Exclusive cpuset.Set
}

// Report is the result of Restore.
type Report struct {
	// State is the state of the undo record before the restore.
	State State `json:"state"`
	// Note describes EarlierBoot and Lost to people.
	Note string `json:"note,omitempty"`
	// Restored contains the successful changes. In a dry run it contains all changes.
	Restored []Change `json:"restored"`
	// Gone is the number of recorded knobs that no longer exist.
	Gone int `json:"gone"`
	// Differs contains the knobs without their original value.
	Differs []Difference `json:"differs"`
}

// Difference is a knob without its original value.
type Difference struct {
	Knob
	Label    string `json:"label,omitempty"`
	Original string `json:"original"`
	Now      string `json:"now"`
	// Harmless is true after an external write: the CPUs that the daemon had removed are back.
	Harmless bool   `json:"harmless"`
	Reason   string `json:"reason"`
}

// Restore restores all knobs, reads them again and returns the differences. No daemon may
// run. Knobs that cannot be restored keep their records. With dryRun, Restore only reads.
func Restore(ctx context.Context, o Restoring, dryRun bool) (Report, error) {
	records, state, loadErr := o.Undo.Load()
	r := Report{State: state}
	switch state {
	case None:
		return r, nil
	case EarlierBoot:
		r.Note = "the machine has rebooted since host settings were changed; no change is left"
		if dryRun {
			return r, nil
		}
		return r, o.Undo.Save(nil)
	case Lost:
		r.Note = loadErr.Error() + ": the kernel's defaults replace the recorded values"
	case Known: // errors of other sources do not matter, because the daemon changed none of their knobs
		o.Sources = needed(o.Sources, Desired{}, records)
	}
	seen, unread, readErr := readAll(ctx, o.Sources)
	if state == Lost {
		records = Presume(seen, o.Exclusive, o.Machine)
	}
	d := Plan(Desired{}, seen, records, o.Machine, unread)
	r.Gone = countGone(records, seen, unread)
	if dryRun {
		r.Restored = d.Changes
		return r, readErr
	}
	failed := writeAll(ctx, o.Sources, d.Changes)
	after, unread, err := readAll(ctx, o.Sources)
	readErr = errors.Join(readErr, err)
	left := Plan(Desired{}, after, records, o.Machine, unread)
	r.compare(d.Changes, after, records, failed)
	return r, errors.Join(readErr, o.Undo.Save(left.Records))
}

// writeAll tries failed changes twice: an energy preference depends on the governor.
func writeAll(ctx context.Context, sources []Source, changes []Change) (failed map[Knob]error) {
	for range 2 {
		left := changes
		changes, failed = nil, make(map[Knob]error)
		for _, c := range left {
			if err := write(ctx, sources, c); err != nil && !isGone(err) {
				failed[c.Knob] = err
				changes = append(changes, c)
			}
		}
	}
	return failed
}

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

// compare fills Restored, Gone and Differs from the values after the changes.
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
				Knob: rec.Knob, Original: rec.Original, Now: rec.Wrote, Reason: "cannot be written while its CPUs are offline; set them online and restore again",
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
			d.Reason = fmt.Sprintf("the kernel accepted %q without effect", c.To)
		case o.Value != d.Original:
			d.Harmless = true
			d.Reason = fmt.Sprintf("another process had written %q; the CPUs that the daemon removed are back", c.From)
			r.Restored = append(r.Restored, c)
		default:
			r.Restored = append(r.Restored, c)
			continue
		}
		r.Differs = append(r.Differs, d)
	}
}

// Preview returns the first decision that a Tuner would make with the present undo record.
func Preview(ctx context.Context, o Restoring, w Desired) (Decision, error) {
	records, state, err := o.Undo.Load()
	seen, unread, readErr := readAll(ctx, needed(o.Sources, w, records))
	if state == Lost {
		records = Presume(seen, o.Exclusive, o.Machine)
	}
	return Plan(w, seen, records, o.Machine, unread), errors.Join(err, readErr)
}
