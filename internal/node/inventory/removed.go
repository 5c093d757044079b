package inventory

import (
	"maps"
	"time"
)

// The clock of the inventory counts changes. A question carries the clock of its time, so
// that its answer can be compared with changes since. An answer that is older than the
// removal of its object would bring the object back, with its CPUs, until the next listing.

// removalTime is how long a runtime may still list an object after it has reported the
// removal. CRI-O 1.34 and containerd 2.4 report it through NRI when the processes have ended,
// and then delete the container. The deletion takes seconds on a busy node.
const removalTime = 30 * time.Second

// removal is the removal of a container or sandbox.
type removal struct {
	asOf  int       // older answers do not count
	until time.Time // answers before this time do not count; zero if the runtime has not reported the removal
}

// Clock returns 1 plus the number of changes so far, for the asOf of a question.
func (m *Inventory) Clock() int { return m.clock }

// remove records that the runtime has reported the removal of a container or sandbox. It
// drops the container.
func (m *Inventory) remove(id string) {
	m.clock++
	m.removed[id] = removal{m.clock, m.now().Add(removalTime)}
	m.dropContainer(id)
}

// removeAsOf drops a container that the answer to a question of asOf lacks.
func (m *Inventory) removeAsOf(id string, asOf int) {
	r := m.removed[id]
	r.asOf = max(r.asOf, asOf)
	m.removed[id] = r
	m.dropContainer(id)
}

// isOutdated reports whether an answer to a question of asOf does not count, because the
// object has been removed.
func (m *Inventory) isOutdated(id string, asOf int) bool {
	r := m.removed[id]
	return r.asOf > asOf || m.now().Before(r.until)
}

// forgetRemoved drops the removals up to asOf that are over. Answers that are older than a
// complete listing are rare, and the next listing corrects them.
func (m *Inventory) forgetRemoved(asOf int) {
	now := m.now()
	maps.DeleteFunc(m.removed, func(_ string, r removal) bool { return r.asOf <= asOf && !now.Before(r.until) })
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
