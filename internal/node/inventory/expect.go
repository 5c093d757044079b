package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Expect takes in a container that the runtime is about to create, and its pod.
func (m *Inventory) Expect(p cri.Pod, c cri.Container) {
	m.ExpectPod(p)
	for id, e := range m.within[c.PodID] {
		if e.Unconfirmed && e.Container.Name == c.Name {
			m.DropContainer(id) // its creation has failed, and the runtime did not say so
		}
	}
	m.PutContainer(ContainerStatus{Container: c})
	e := m.containers[c.ID]
	e.SeenCreated, e.Recovered, e.Asked, e.requestedAt, e.since = true, true, true, m.Clock, m.now()
}

// ExpectPod takes in a pod that is not known yet. What it is the runtime has told
// with it; what systemd has for it is asked with the first event about it.
func (m *Inventory) ExpectPod(p cri.Pod) {
	if old := m.pods[p.ID]; old != nil && old.Err == nil && !old.Unlisted {
		return
	}
	m.PutPod(PodStatus{Pod: p})
	m.pods[p.ID].Unconfirmed, m.pods[p.ID].since = true, m.now()
}

// Unexpect drops those that are known from NRI alone and are not there.
func (m *Inventory) Unexpect(there map[string]bool) {
	for id, e := range m.containers {
		if e.Unconfirmed && !there[id] {
			m.DropContainer(id)
		}
	}
	for id, e := range m.pods {
		if e.Unconfirmed && !there[id] {
			m.Unlist(id)
		}
	}
}

// IsBeingMade reports whether the OCI runtime still makes the cgroup of a container, which
// may be nil. A write to the cgroup would be lost, or would replace one of the OCI
// runtime. With NRI the runtime asks before the first process runs in the cgroup.
func (m *Inventory) IsBeingMade(e *Container) bool {
	return m.AsksFirst && e != nil && e.Container.State == cri.Created && !e.Starting
}

// Expected says that a container may well come into the runtime's lists yet.
func (e *Container) Expected(now time.Time) bool {
	return e.Asked || e.Unconfirmed && now.Sub(e.since) < ghostTime
}

func (e *Pod) Expected(now time.Time) bool {
	return e.Unconfirmed && now.Sub(e.since) < ghostTime
}

// ForgetExpected drops the containers of a pod that is gone which are known from NRI
// alone.
func (m *Inventory) ForgetExpected(pod string) {
	for id, e := range m.within[pod] {
		if e.Unconfirmed {
			m.DropContainer(id)
		}
	}
}

// ghostTime is how long a container may be known from NRI alone. A creation takes
// seconds on a busy node; one that has failed is taken back by the runtime, if it is
// still connected then.
const ghostTime = 2 * time.Minute
