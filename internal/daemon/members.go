package daemon

import "maps"

// Who is in which pod is asked with each event about a pod, and must not take a look at all
// others: the containers of a sandbox, and the sandboxes of a UID, are kept beside the maps
// of all.

func (m *model) setContainer(id string, e *containerEntry) {
	m.dropContainer(id)
	m.containers[id] = e
	group(m.within, e.container.PodID, id, e)
}

func (m *model) dropContainer(id string) {
	if e := m.containers[id]; e != nil {
		delete(m.containers, id)
		ungroup(m.within, e.container.PodID, id)
	}
}

func (m *model) setPod(id string, e *podEntry) {
	m.dropPod(id)
	m.pods[id] = e
	group(m.sandboxes, e.uid, id, e)
}

func (m *model) dropPod(id string) {
	if e := m.pods[id]; e != nil {
		delete(m.pods, id)
		ungroup(m.sandboxes, e.uid, id)
	}
}

// members are the containers of all sandboxes of a UID; where no sandbox is known, those of
// the one with that id (see keyOf).
func (m *model) members(uid string) map[string]*containerEntry {
	if len(m.sandboxes[uid]) == 0 {
		return m.within[uid]
	}
	all := make(map[string]*containerEntry)
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
