package observer

import "time"

// subject names the containers of an interval: a thread of intruder may run on a CPU of owner.
// Without an intruder, the owner itself may run on a CPU that is not its own.
type subject struct {
	owner, intruder string // scopes
}

// interval is the time of one overlap. It lasts from the last round without the overlap to the
// first round without it afterwards, so its length is an upper bound.
type interval struct {
	subject
	cpus       cpus // union of all rounds
	begin, end time.Duration
	fresh      bool // the intruder had all CPUs of its parent since it began: it was never placed.
	taken      bool // the owner got its CPUs when the overlap began, or in the round before
	executed   bool // a thread of the intruder runs the program of its container, not the OCI runtime.
	ownerRuns  bool // the same of the owner
	detail     string
}

// timeline makes intervals of the overlaps of successive rounds.
type timeline struct {
	last time.Duration // begin of the last round
	open map[subject]*interval
}

// note takes the overlaps of a round, and returns the intervals that this round ends.
func (t *timeline) note(begin, end time.Duration, found map[subject]interval) (ended []interval) {
	if t.open == nil {
		t.open = make(map[subject]*interval)
	}
	for s, o := range t.open {
		if _, still := found[s]; !still {
			o.end = end
			ended = append(ended, *o)
			delete(t.open, s)
		}
	}
	for s, f := range found {
		if o := t.open[s]; o != nil {
			o.cpus |= f.cpus
			o.ownerRuns = o.ownerRuns || f.ownerRuns
			if f.executed && !o.executed {
				o.executed, o.detail = true, o.detail+", then "+f.detail
			}
			continue
		}
		f.subject, f.begin = s, t.last
		t.open[s] = &f
	}
	t.last = begin
	return ended
}
