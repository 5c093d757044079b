package account

import (
	"slices"
	"time"
)

// Count is CPU time and a number of switch-outs.
type Count struct {
	Time     time.Duration
	Switches uint64
}

// Plus returns the sum of two counts.
func (c Count) Plus(d Count) Count { return Count{c.Time + d.Time, c.Switches + d.Switches} }

// Beyond returns the part of c that exceeds d.
func (c Count) Beyond(d Count) Count {
	return Count{max(0, c.Time-d.Time), c.Switches - min(c.Switches, d.Switches)}
}

// Slice is the time of a foreign task that still runs.
type Slice struct {
	Begin uint64 // identifies it on its CPU: the later of its switch-in and the begin of the watch
	Kind  int
	Time  time.Duration
}

// CPU turns the kernel's counts of a CPU into counts that never decrease.
type CPU struct {
	// unresolved is the kind that the kernel counts for tasks of another kind.
	unresolved int
	resolved   []Count         // By Resolve.
	lost       []time.Duration // Time of slices that the kernel did not count at their end.
	rest       Count           // Of the unresolved kind, without a resolution.
	before     []Count         // The result of the previous call of Counts, without lost and running.
	running    *Slice          // Of that call.
}

// NewCPU returns a CPU without counts, for kinds from 0 to kinds-1.
func NewCPU(kinds, unresolved int) *CPU {
	return &CPU{unresolved: unresolved, resolved: make([]Count, kinds), lost: make([]time.Duration, kinds), before: make([]Count, kinds)}
}

// Resolve takes a count of the unresolved kind as one of another kind, or finally as unresolved.
func (c *CPU) Resolve(kind int, n Count) { c.resolved[kind] = c.resolved[kind].Plus(n) }

// Counts returns the counts by kind. kernel holds the kernel's counts, which have to be read before
// the rows for Resolve. running is the foreign task that runs at present, or nil.
//
// The kernel counts a slice at its end. It does not count a slice if the watch of the CPU ended
// before. Then the time until the previous call stays in the result.
func (c *CPU) Counts(kernel []Count, running *Slice) []Count {
	all := make([]Count, len(kernel))
	var resolved Count
	for kind := range all {
		all[kind] = c.resolved[kind]
		resolved = resolved.Plus(c.resolved[kind])
		if kind != c.unresolved {
			all[kind] = all[kind].Plus(kernel[kind])
		}
	}
	// Slices without a row have no resolution. Slices that ended after kernel was read have one too many.
	rest := kernel[c.unresolved].Beyond(resolved)
	c.rest = Count{max(c.rest.Time, rest.Time), max(c.rest.Switches, rest.Switches)}
	all[c.unresolved] = all[c.unresolved].Plus(c.rest)

	if was := c.running; was != nil && (running == nil || running.Begin != was.Begin) {
		counted := all[was.Kind].Time - c.before[was.Kind].Time
		c.lost[was.Kind] += max(0, was.Time-counted)
	}
	c.running, c.before = running, slices.Clone(all)
	for kind := range all {
		all[kind].Time += c.lost[kind]
	}
	if running != nil {
		all[running.Kind].Time += running.Time
	}
	return all
}
