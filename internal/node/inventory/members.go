package inventory

import (
	"iter"
	"maps"
)

// Each event about a pod looks up its members, and a search through all objects would cost
// too much on a full node. So containers are also kept by sandbox, and sandboxes by UID.

func (m *Inventory) setContainer(id string, e *Container) {
	m.dropContainer(id)
	m.containers[id] = e
	group(m.within, e.Container.PodID, id, e)
}

func (m *Inventory) dropContainer(id string) {
	if e := m.containers[id]; e != nil {
		delete(m.containers, id)
		ungroup(m.within, e.Container.PodID, id)
	}
}

func (m *Inventory) setPod(id string, e *Pod) {
	m.dropPod(id)
	m.pods[id] = e
	group(m.sandboxes, e.UID, id, e)
}

func (m *Inventory) dropPod(id string) {
	if e := m.pods[id]; e != nil {
		delete(m.pods, id)
		ungroup(m.sandboxes, e.UID, id)
	}
}

// Members returns the containers of all sandboxes of a pod in no order. Without a known
// sandbox uid is a sandbox id, as in KeyOf.
func (m *Inventory) Members(uid string) iter.Seq[*Container] {
	sandboxes := m.sandboxes[uid]
	if len(sandboxes) == 0 {
		return maps.Values(m.within[uid])
	}
	return func(yield func(*Container) bool) {
		for id := range sandboxes {
			for _, e := range m.within[id] {
				if !yield(e) {
					return
				}
			}
		}
	}
}

func group[E any](groups map[string]map[string]E, of, id string, e E) {
	if groups[of] == nil {
		groups[of] = make(map[string]E)
	}
	groups[of][id] = e
}

func ungroup[E any](groups map[string]map[string]E, of, id string) {
	if delete(groups[of], id); len(groups[of]) == 0 {
		delete(groups, of)
	}
}
