package inventory

import (
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Merge applies a complete listing of pods and containers. It keeps entries that are newer
// than the listing, the details of known entries, and objects that NRI has just reported.
func (m *Inventory) Merge(l lookup.Listing) {
	m.listings++
	seen := make(map[string]bool, len(l.Pods)+len(l.Containers)+len(l.KnownPods)+len(l.KnownContainers))
	for _, p := range l.Pods {
		m.mergePod(p, l.AsOf, seen)
	}
	for _, p := range l.KnownPods {
		m.mergePod(lookup.PodStatus{Pod: p}, l.AsOf, seen)
	}
	for _, c := range l.Containers {
		m.mergeContainer(c, l.AsOf, seen)
	}
	for _, c := range l.KnownContainers {
		m.mergeContainer(lookup.ContainerStatus{Container: c}, l.AsOf, seen)
	}
	now := m.now()
	for id, e := range m.objects.containers {
		if !seen[id] && e.added <= l.AsOf && !e.isExpected(now) {
			m.objects.dropContainer(id)
		}
	}
	for id, e := range m.objects.pods {
		if !seen[id] && e.added <= l.AsOf && !e.isExpected(now) {
			m.unlist(id)
		}
	}
	for _, e := range m.objects.containers {
		// The pod of a container that is newer than the listing is being fetched.
		if id := e.Container.PodID; seen[e.Container.ID] && id != "" && m.objects.pods[id] == nil {
			m.unlist(id)
		}
	}
	m.forgetRemoved(l.AsOf)
}

// mergePod applies one sandbox of a listing of asOf and adds it to seen.
func (m *Inventory) mergePod(p lookup.PodStatus, asOf int, seen map[string]bool) {
	if m.isOutdated(p.ID, asOf) {
		return
	}
	seen[p.ID] = true
	old := m.objects.pods[p.ID]
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
func (m *Inventory) mergeContainer(c lookup.ContainerStatus, asOf int, seen map[string]bool) {
	if m.isOutdated(c.ID, asOf) {
		return
	}
	seen[c.ID] = true
	old := m.objects.containers[c.ID]
	switch {
	case c.Detailed, old == nil && c.Partial != nil:
		m.putContainer(c)
		if old == nil && c.State == cri.Running {
			m.objects.containers[c.ID].Exposure().FoundBy(telemetry.WayResync)
		}
	case old != nil:
		old.advance(c.State)
		old.confirm()
	}
}
