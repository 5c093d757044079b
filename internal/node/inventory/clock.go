package inventory

import (
	"maps"
	"time"
)

// removalTime is how long a runtime may still list an object after it has reported the
// removal. CRI-O 1.34 and containerd 2.4 report it through NRI when the processes have ended,
// and then delete the container. The deletion takes seconds on a busy node.
const removalTime = 30 * time.Second

// removal is the removal of a container or sandbox.
type removal struct {
	asOf  int       // older answers do not count
	until time.Time // answers before this time do not count; zero if the runtime has not reported the removal
}

// clock counts changes, and holds the removals and the source of the time. A question carries the count of its time, so that its answer can be
// compared with changes since. An answer that is older than the removal of its object would
// bring the object back, with its CPUs, until the next listing.
type clock struct {
	now     func() time.Time
	changes int                // 1 plus the number of changes
	removed map[string]removal // by sandbox or container id
}

// betweenUpdates is the AsOf of a question that runs in the queue of the container's updates.
const betweenUpdates = 0

// UseClock replaces the source of the time, which is time.Now after New.
func (m *Inventory) UseClock(now func() time.Time) { m.now = now }

// Clock returns 1 plus the number of changes so far, for the asOf of a question.
func (m *Inventory) Clock() int { return m.changes }

// tick counts a change, and returns its number.
func (c *clock) tick() int {
	c.changes++
	return c.changes
}

// noteRemoved records that the runtime has reported the removal of a container or sandbox.
func (c *clock) noteRemoved(id string) {
	c.removed[id] = removal{c.tick(), c.now().Add(removalTime)}
}

// noteMissing records that the answer to a question of asOf lacks a container.
func (c *clock) noteMissing(id string, asOf int) {
	r := c.removed[id]
	r.asOf = max(r.asOf, asOf)
	c.removed[id] = r
}

// isOutdated reports whether an answer to a question of asOf does not count, because the
// object has been removed.
func (c *clock) isOutdated(id string, asOf int) bool {
	r := c.removed[id]
	return r.asOf > asOf || c.now().Before(r.until)
}

// forgetRemoved drops the removals up to asOf that are over. Answers that are older than a
// complete listing are rare, and the next listing corrects them.
func (c *clock) forgetRemoved(asOf int) {
	now := c.now()
	maps.DeleteFunc(c.removed, func(_ string, r removal) bool { return r.asOf <= asOf && !now.Before(r.until) })
}

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

// lastChange returns when the container was created or, if it has ended, when it ended.
func (e *Container) lastChange() time.Time {
	if e.ended.After(e.began) {
		return e.ended
	}
	return e.began
}
