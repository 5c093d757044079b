package nodestatus

import "maps"

// Stats holds the state and the counts of a Runner.
type Stats struct {
	// Connected is true if the last requests succeeded and a watch is open.
	Connected bool
	// Amounts holds the amounts of the last or the next patch.
	Amounts []Amount
	// Pressure is true if the shared pool counts as depleted.
	Pressure bool
	// Patches and Events count by result since the start.
	Patches, Events map[Result]uint64
}

// Result is the result of a request.
type Result string

// Results. Conflict means that the Node had changed; the Runner repeats the request.
const (
	OK       Result = "ok"
	Failed   Result = "failed"
	Conflict Result = "conflict"
)

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
