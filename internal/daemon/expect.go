package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// expect takes in a container that the runtime is about to create, and its pod.
func (m *model) expect(p cri.Pod, c cri.Container) {
	m.expectPod(p)
	for id, e := range m.within[c.PodID] {
		if e.unconfirmed && e.container.Name == c.Name {
			m.dropContainer(id) // its creation has failed, and the runtime did not say so
		}
	}
	m.putContainer(containerFacts{Container: c})
	e := m.containers[c.ID]
	e.born, e.considered, e.unborn, e.told, e.since = true, true, true, m.clock, time.Now()
}

// expectPod takes in a pod that is not known yet. What it is the runtime has told
// with it; what systemd has for it is asked with the first event about it.
func (m *model) expectPod(p cri.Pod) {
	if old := m.pods[p.ID]; old != nil && old.err == nil && !old.unlisted {
		return
	}
	m.putPod(podFacts{Pod: p})
	m.pods[p.ID].unconfirmed, m.pods[p.ID].since = true, time.Now()
}

// unexpect drops those that are known from NRI alone and are not there.
func (m *model) unexpect(there map[string]bool) {
	for id, e := range m.containers {
		if e.unconfirmed && !there[id] {
			m.dropContainer(id)
		}
	}
	for id, e := range m.pods {
		if e.unconfirmed && !there[id] {
			m.unlist(id)
		}
	}
}

// unready says that a target's cgroup is nobody's business yet: if it is there, it is
// being made, from what is on record, and the runtime asks before anything runs in it.
// What is written to it meanwhile is lost, or the OCI runtime's own is.
func (m *model) unready(t *cgroup.Target) bool {
	e := m.containers[t.Container]
	return m.asksFirst && e != nil && e.container.State == cri.Created && !e.starting
}

// expected says that a container may well come into the runtime's lists yet.
func (e *containerEntry) expected(now time.Time) bool {
	return e.unborn || e.unconfirmed && now.Sub(e.since) < ghostTime
}

func (e *podEntry) expected(now time.Time) bool {
	return e.unconfirmed && now.Sub(e.since) < ghostTime
}

// forgetExpected drops the containers of a pod that is gone which are known from NRI
// alone.
func (m *model) forgetExpected(pod string) {
	for id, e := range m.within[pod] {
		if e.unconfirmed {
			m.dropContainer(id)
		}
	}
}
