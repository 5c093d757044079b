package nodestatus

import "maps"

// Stats are what a Runner has done, and how it fares.
type Stats struct {
	// Connected says that the API server answers, and tells of the Node's changes.
	Connected bool
	// Amounts are those that are advertised, or will be.
	Amounts []Amount
	// Pressure says that the shared pool counts as depleted.
	Pressure bool
	// Patches and Events count by result since the start.
	Patches, Events map[Result]uint64
}

// Result is how a request ended.
type Result string

// Conflict: the Node had changed, and the request is made again.
const (
	OK       Result = "ok"
	Failed   Result = "failed"
	Conflict Result = "conflict"
)

// Stats returns what has been done so far.
func (r *Runner) Stats() Stats {
	s := *r.stats.Load()
	s.Connected = s.Connected && r.linked.Load()
	return s
}

// publish makes the counts visible.
func (r *Runner) publish() {
	s := r.counts
	s.Connected = r.status.err == nil && r.taint.err == nil && r.depleted.err == nil && r.events.err == nil
	s.Patches, s.Events = maps.Clone(s.Patches), maps.Clone(s.Events)
	r.stats.Store(&s)
}
