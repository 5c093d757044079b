package nodestatus

import (
	"maps"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// Stats holds the state and the counts of a Runner.
type Stats struct {
	// Connected is true if the last requests succeeded and a watch is open.
	Connected bool
	telemetry.NodeView
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
