package actor

import "time"

// Deadline is a point in time at which the event loop acts. The zero value is not set.
type Deadline struct{ Due time.Time }

// Set replaces the deadline.
func (d *Deadline) Set(at time.Time) { d.Due = at }

// SetEarlier replaces the deadline if at is earlier, or if none is set. The zero time changes
// nothing.
func (d *Deadline) SetEarlier(at time.Time) {
	if !at.IsZero() && (d.Due.IsZero() || at.Before(d.Due)) {
		d.Due = at
	}
}

// Clear removes the deadline.
func (d *Deadline) Clear() { d.Due = time.Time{} }

// IsOver reports whether the deadline is set and has passed, and removes it then.
func (d *Deadline) IsOver(now time.Time) bool {
	if d.Due.IsZero() || now.Before(d.Due) {
		return false
	}
	d.Clear()
	return true
}
