package daemon

import "maps"

// remove drops a container, or notes of a sandbox, that it has been deleted: an answer
// to a question from before would bring it back, with its CPUs, until the next listing.
func (m *model) remove(id string) {
	m.clock++
	m.removeAsOf(id, m.clock)
}

// removeAsOf is remove for what was found gone by a question that was asked at asOf.
func (m *model) removeAsOf(id string, asOf int) {
	m.removed[id] = max(m.removed[id], asOf)
	m.dropContainer(id)
}

// outdated says that what was asked for at asOf has been deleted since.
func (m *model) outdated(id string, asOf int) bool { return m.removed[id] > asOf }

// forgetRemoved forgets what was deleted before a listing was asked for: answers that
// are older than a whole listing are rare, and the next one puts them right.
func (m *model) forgetRemoved(asOf int) {
	maps.DeleteFunc(m.removed, func(_ string, at int) bool { return at <= asOf })
}
