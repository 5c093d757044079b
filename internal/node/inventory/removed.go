package inventory

import (
	"maps"
)

// remove drops a container, or notes of a sandbox, that it has been deleted: an answer
// to a question from before would bring it back, with its CPUs, until the next listing.
func (m *Model) Remove(id string) {
	m.Clock++
	m.RemoveAsOf(id, m.Clock)
}

// removeAsOf is remove for what was found gone by a question that was asked at asOf.
func (m *Model) RemoveAsOf(id string, asOf int) {
	m.Removed[id] = max(m.Removed[id], asOf)
	m.DropContainer(id)
}

// outdated says that what was asked for at asOf has been deleted since.
func (m *Model) Outdated(id string, asOf int) bool { return m.Removed[id] > asOf }

// forgetRemoved forgets what was deleted before a listing was asked for: answers that
// are older than a whole listing are rare, and the next one puts them right.
func (m *Model) ForgetRemoved(asOf int) {
	maps.DeleteFunc(m.Removed, func(_ string, at int) bool { return at <= asOf })
}
