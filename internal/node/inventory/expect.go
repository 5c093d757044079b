package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// expect takes in a container that the runtime is about to create, and its pod.
func (m *Model) Expect(p cri.Pod, c cri.Container) {
	m.ExpectPod(p)
	for id, e := range m.within[c.PodID] {
		if e.Unconfirmed && e.Container.Name == c.Name {
			m.DropContainer(id) // its creation has failed, and the runtime did not say so
		}
	}
	m.PutContainer(ContainerFacts{Container: c})
	e := m.Containers[c.ID]
	e.Born, e.Considered, e.Unborn, e.told, e.since = true, true, true, m.Clock, time.Now()
}

// expectPod takes in a pod that is not known yet. What it is the runtime has told
// with it; what systemd has for it is asked with the first event about it.
func (m *Model) ExpectPod(p cri.Pod) {
	if old := m.Pods[p.ID]; old != nil && old.Err == nil && !old.Unlisted {
		return
	}
	m.PutPod(PodFacts{Pod: p})
	m.Pods[p.ID].Unconfirmed, m.Pods[p.ID].since = true, time.Now()
}

// unexpect drops those that are known from NRI alone and are not there.
func (m *Model) Unexpect(there map[string]bool) {
	for id, e := range m.Containers {
		if e.Unconfirmed && !there[id] {
			m.DropContainer(id)
		}
	}
	for id, e := range m.Pods {
		if e.Unconfirmed && !there[id] {
			m.Unlist(id)
		}
	}
}

// unready says that a target's cgroup is nobody's business yet: if it is there, it is
// being made, from what is on record, and the runtime asks before anything runs in it.
// What is written to it meanwhile is lost, or the OCI runtime's own is.
func (m *Model) Unready(t *cgroup.Target) bool {
	e := m.Containers[t.Container]
	return m.AsksFirst && e != nil && e.Container.State == cri.Created && !e.Starting
}

// expected says that a container may well come into the runtime's lists yet.
func (e *ContainerEntry) Expected(now time.Time) bool {
	return e.Unborn || e.Unconfirmed && now.Sub(e.since) < ghostTime
}

func (e *PodEntry) Expected(now time.Time) bool {
	return e.Unconfirmed && now.Sub(e.since) < ghostTime
}

// forgetExpected drops the containers of a pod that is gone which are known from NRI
// alone.
func (m *Model) ForgetExpected(pod string) {
	for id, e := range m.within[pod] {
		if e.Unconfirmed {
			m.DropContainer(id)
		}
	}
}
