package daemon

import "time"

// timers holds the deadlines of the loop. A zero deadline is not set.
type timers struct {
	resync    deadline // the next listing
	recheck   deadline // the latest scan after a resync
	retry     deadline // the next retry or answer
	journal   deadline // the end of the wait for the disk
	heartbeat deadline // the next heartbeat.
	delayed   deadline // the next delayed full pass
	notices   deadline // changes that the watcher holds back
}

// next returns the earliest deadline, or the zero time if none is set.
func (t *timers) next() time.Time {
	var next deadline
	for _, d := range [...]deadline{t.resync, t.recheck, t.retry, t.journal, t.heartbeat, t.delayed, t.notices} {
		next.setEarlier(d.due)
	}
	return next.due
}

// deadline is a point in time at which the loop acts.
type deadline struct{ due time.Time }

// set replaces the deadline.
func (d *deadline) set(at time.Time) { d.due = at }

// setEarlier replaces the deadline if at is earlier, or if none is set. The zero time changes
// nothing.
func (d *deadline) setEarlier(at time.Time) {
	if !at.IsZero() && (d.due.IsZero() || at.Before(d.due)) {
		d.due = at
	}
}

// clear removes the deadline.
func (d *deadline) clear() { d.due = time.Time{} }

// isOver reports whether the deadline is set and has passed, and removes it then.
func (d *deadline) isOver(now time.Time) bool {
	if d.due.IsZero() || now.Before(d.due) {
		return false
	}
	d.clear()
	return true
}
