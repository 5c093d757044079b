package inventory

import "time"

// SettleTime is how long a pod may still be without some of its containers after
// the last of its sandbox, its containers and their ends: image pulls come between.
const SettleTime = 10 * time.Minute

// OnClock returns a time that another program has told, as the daemon's own clock has
// it, which nobody sets: it is as far back as the clock on the wall says at the moment
// at which the daemon hears of it. Somebody may set that one afterwards. What is still
// to come was told before the clock was set back, and is now.
func OnClock(at, now time.Time) time.Time { return now.Add(min(at.Sub(now), 0)) }

// Finish notes when the runtime says that the container has ended, if it does.
func (e *Container) Finish(at, now time.Time) {
	if e.Ended.IsZero() && !at.IsZero() {
		e.Ended = OnClock(at, now)
	}
}

// remember keeps what was known when the container was heard of first.
func (e *Container) remember(old *Container) {
	if !old.Container.CreatedAt.IsZero() { // else the runtime has told too little
		e.Began = old.Began
	}
	if !old.Ended.IsZero() {
		e.Ended = old.Ended
	}
}

// changed is when the container was created, or has ended if it has.
func (e *Container) changed() time.Time {
	if e.Ended.After(e.Began) {
		return e.Ended
	}
	return e.Began
}
