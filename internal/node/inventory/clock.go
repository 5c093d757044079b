package inventory

import "time"

// settleTime is how long after its last change a pod may still get containers: image pulls
// come between them. Changes are the creation of the sandbox and the creation or end of a
// container.
const settleTime = 10 * time.Minute

// onClock converts a time of another program to the daemon's monotonic clock: the time is
// as long ago as the wall clock shows at now. A later change of the wall clock has no
// effect. A time in the future comes from before the wall clock was set back and becomes
// now.
func onClock(at, now time.Time) time.Time { return now.Add(min(at.Sub(now), 0)) }

// end records the time at which the container ended. A zero time is unknown.
func (e *Container) end(at, now time.Time) {
	if !at.IsZero() {
		e.ended = onClock(at, now)
	}
}

// keepTimes takes over the times that were converted when the container was first reported.
func (e *Container) keepTimes(old *Container) {
	if !old.Container.CreatedAt.IsZero() { // the first report was complete
		e.began = old.began
	}
	if !old.ended.IsZero() {
		e.ended = old.ended
	}
}

// lastChange returns when the container was created or, if it has ended, when it ended.
func (e *Container) lastChange() time.Time {
	if e.ended.After(e.began) {
		return e.ended
	}
	return e.began
}
