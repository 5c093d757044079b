package inventory

import "maps"

// Who is in which pod is asked with each event about a pod, and must not take a look at all
// others: the containers of a sandbox, and the sandboxes of a UID, are kept beside the maps
// of all.

func (m *Inventory) SetContainer(id string, e *Container) {
	m.DropContainer(id)
	m.containers[id] = e
	group(m.within, e.Container.PodID, id, e)
}

func (m *Inventory) DropContainer(id string) {
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

// Members are the containers of all sandboxes of a UID; where no sandbox is known, those of
// the one with that id (see keyOf).
func (m *Inventory) Members(uid string) map[string]*Container {
	if len(m.sandboxes[uid]) == 0 {
		return m.within[uid]
	}
	all := make(map[string]*Container)
	for id := range m.sandboxes[uid] {
		maps.Copy(all, m.within[id])
	}
	return all
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
