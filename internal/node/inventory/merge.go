package inventory

import (
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Merge applies a complete listing of pods and containers. It keeps entries that are newer
// than the listing, the details of known entries, and objects that NRI has just reported.
func (m *Inventory) Merge(l Listing) {
	m.listings++
	seen := make(map[string]bool, len(l.pods)+len(l.containers)+len(l.known.pods)+len(l.known.containers))
	for _, p := range l.pods {
		m.mergePod(p, l.asOf, seen)
	}
	for _, p := range l.known.pods {
		m.mergePod(PodStatus{Pod: p}, l.asOf, seen)
	}
	for _, c := range l.containers {
		m.mergeContainer(c, l.asOf, seen)
	}
	for _, c := range l.known.containers {
		m.mergeContainer(ContainerStatus{Container: c}, l.asOf, seen)
	}
	now := m.now()
	for id, e := range m.containers {
		if !seen[id] && e.added <= l.asOf && !e.isExpected(now) {
			m.dropContainer(id)
		}
	}
	for id, e := range m.pods {
		if !seen[id] && e.added <= l.asOf && !e.isExpected(now) {
			m.unlist(id)
		}
	}
	for _, e := range m.containers {
		// The pod of a container that is newer than the listing is being fetched.
		if id := e.Container.PodID; seen[e.Container.ID] && id != "" && m.pods[id] == nil {
			m.unlist(id)
		}
	}
	m.forgetRemoved(l.asOf)
}

// mergePod applies one sandbox of a listing of asOf and adds it to seen.
func (m *Inventory) mergePod(p PodStatus, asOf int, seen map[string]bool) {
	if m.isOutdated(p.ID, asOf) {
		return
	}
	seen[p.ID] = true
	old := m.pods[p.ID]
	switch {
	case p.Detailed, p.Partial != nil && (old == nil || old.unlisted):
		m.putPod(p)
	case old != nil && old.added <= asOf:
		old.Pod.Ready = old.Pod.Ready && p.Ready
	}
	if old != nil {
		old.confirm()
	}
}

// mergeContainer applies one container of a listing of asOf and adds it to seen.
func (m *Inventory) mergeContainer(c ContainerStatus, asOf int, seen map[string]bool) {
	if m.isOutdated(c.ID, asOf) {
		return
	}
	seen[c.ID] = true
	old := m.containers[c.ID]
	switch {
	case c.Detailed, old == nil && c.Partial != nil:
		m.putContainer(c)
		if old == nil && c.State == cri.Running {
			m.containers[c.ID].FoundBy(telemetry.WayResync)
		}
	case old != nil:
		old.advance(c.State)
		old.confirm()
	}
}
