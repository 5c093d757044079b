package inventory

import "maps"

// Remove drops a container, or notes of a sandbox, that it has been deleted: an answer
// to a question from before would bring it back, with its CPUs, until the next listing.
func (m *Inventory) Remove(id string) {
	m.Clock++
	m.RemoveAsOf(id, m.Clock)
}

// RemoveAsOf is remove for what was found gone by a question that was asked at asOf.
func (m *Inventory) RemoveAsOf(id string, asOf int) {
	m.Removed[id] = max(m.Removed[id], asOf)
	m.DropContainer(id)
}

// Outdated says that what was asked for at asOf has been deleted since.
func (m *Inventory) Outdated(id string, asOf int) bool { return m.Removed[id] > asOf }

// ForgetRemoved forgets what was deleted before a listing was asked for: answers that
// are older than a whole listing are rare, and the next one puts them right.
func (m *Inventory) ForgetRemoved(asOf int) {
	maps.DeleteFunc(m.Removed, func(_ string, at int) bool { return at <= asOf })
}
