package inventory

import (
	"iter"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Objects holds the pods, containers and units of the node. Code that only has Objects cannot
// add, replace or remove one.
type Objects struct {
	pods       map[string]*Pod       // by sandbox id
	containers map[string]*Container // by container id
	units      *Units
	// sandboxes holds the pods by UID and sandbox id, within holds the containers by sandbox
	// id and container id: see setContainer.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container
	hasNRI    bool
}

// Container returns the container with an id, or nil.
func (m *Objects) Container(id string) *Container { return m.containers[id] }

// Containers returns all containers in no order.
func (m *Objects) Containers() iter.Seq[*Container] { return maps.Values(m.containers) }

// Pod returns the pod of the sandbox with an id, or nil.
func (m *Objects) Pod(sandbox string) *Pod { return m.pods[sandbox] }

// Pods returns the pods of all sandboxes in no order.
func (m *Objects) Pods() iter.Seq[*Pod] { return maps.Values(m.pods) }

// Units returns the systemd units of the configuration.
func (m *Objects) Units() *Units { return m.units }

// HasNRI reports whether the runtime asks before it starts a container.
func (m *Objects) HasNRI() bool { return m.hasNRI }

// Len returns the number of sandboxes and of containers.
func (m *Objects) Len() (sandboxes, containers int) { return len(m.pods), len(m.containers) }

// Each event about a pod looks up its members, and a search through all objects would cost
// too much on a full node. So containers are also kept by sandbox, and sandboxes by UID.

func (m *Objects) setContainer(id string, e *Container) {
	m.dropContainer(id)
	m.containers[id] = e
	group(m.within, e.Container.PodID, id, e)
}

func (m *Objects) dropContainer(id string) {
	if e := m.containers[id]; e != nil {
		delete(m.containers, id)
		ungroup(m.within, e.Container.PodID, id)
	}
}

func (m *Objects) setPod(id string, e *Pod) {
	m.dropPod(id)
	m.pods[id] = e
	group(m.sandboxes, e.UID, id, e)
}

func (m *Objects) dropPod(id string) {
	if e := m.pods[id]; e != nil {
		delete(m.pods, id)
		ungroup(m.sandboxes, e.UID, id)
	}
}

// Members returns the containers of all sandboxes of a pod in no order. Without a known
// sandbox uid is a sandbox id, as in [Container.Key].
func (m *Objects) Members(uid string) iter.Seq[*Container] {
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

// PodByUID returns a sandbox of the pod with a UID, or nil.
func (m *Objects) PodByUID(uid string) *Pod {
	for _, e := range m.sandboxes[uid] {
		return e
	}
	return nil
}

// UIDOf returns the UID of the newest pod with a name, or "".
func (m *Objects) UIDOf(namespace, name string) string {
	var found *Pod
	for _, e := range m.pods {
		if e.Pod.Namespace == namespace && e.Pod.Name == name && (found == nil || isNewer(e.Pod, found.Pod)) {
			found = e
		}
	}
	if found == nil {
		return ""
	}
	return found.UID
}

// HasInstance reports whether an instance of a container exists that has not ended.
func (m *Objects) HasInstance(key pools.Key) bool {
	for e := range m.Members(key.PodUID) {
		if e.presence != asked && e.Container.State != cri.Exited && e.Key() == key {
			return true
		}
	}
	return false
}
