package nodestatus

import (
	"maps"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// Stats holds the state and the counts of a Runner.
type Stats struct {
	// Connected is true if the last requests succeeded and a watch is open.
	Connected bool
	// Amounts holds the amounts of the last or the next patch.
	Amounts []Amount
	// Pressure is true if the shared pool counts as depleted.
	Pressure bool
	// Patches and Events count by result since the start.
	Patches, Events map[telemetry.Result]uint64
}

// Stats returns the current state and counts.
func (r *Runner) Stats() Stats {
	s := *r.stats.Load()
	s.Connected = s.Connected && r.isWatching.Load()
	return s
}

func (r *Runner) publish() {
	s := r.counts
	s.Connected = r.status.err == nil && r.taint.err == nil && r.depleted.err == nil && r.events.err == nil
	s.Patches, s.Events = maps.Clone(s.Patches), maps.Clone(s.Events)
	r.stats.Store(&s)
}
