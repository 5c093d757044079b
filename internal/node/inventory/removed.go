package inventory

import "maps"

// The clock of the inventory counts changes. A question carries the clock of its time, so
// that its answer can be compared with changes since. An answer that is older than the
// removal of its object would bring the object back, with its CPUs, until the next listing.

// Clock returns 1 plus the number of changes so far, for the asOf of a question.
func (m *Inventory) Clock() int { return m.clock }

// remove records the removal of a container or sandbox, and drops a container.
func (m *Inventory) remove(id string) {
	m.clock++
	m.removeAsOf(id, m.clock)
}

// removeAsOf is remove for an object that the answer to a question of asOf lacks.
func (m *Inventory) removeAsOf(id string, asOf int) {
	m.removed[id] = max(m.removed[id], asOf)
	m.dropContainer(id)
}

// isOutdated reports whether an object was removed after a question of asOf.
func (m *Inventory) isOutdated(id string, asOf int) bool { return m.removed[id] > asOf }

// forgetRemoved drops the removals up to asOf. Answers that are older than a complete
// listing are rare, and the next listing corrects them.
func (m *Inventory) forgetRemoved(asOf int) {
	maps.DeleteFunc(m.removed, func(_ string, at int) bool { return at <= asOf })
}
