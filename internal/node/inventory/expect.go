package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// presence is the state of an object that NRI reports before the runtime shows it.
type presence int

const (
	asked    presence = iota - 2 // the runtime waits for the reply to its request
	answered                     // the runtime has the reply, and has not shown that the object exists
	// confirmed: the runtime has shown that the object exists, with or without NRI.
	confirmed
)

// expectation is the presence of a container or sandbox since the report of NRI.
type expectation struct {
	presence presence
	since    time.Time
}

// confirm records that the runtime has shown that the object exists. The runtime can show it
// while it waits for a reply. Then the object becomes confirmed by a report after the reply.
func (e *expectation) confirm() {
	if e.presence == answered {
		e.presence = confirmed
	}
}

// IsUnconfirmed reports whether only NRI has reported the object, and no request waits for it.
func (e *expectation) IsUnconfirmed() bool { return e.presence == answered }

// isExpected reports whether the runtime may still report an object that it does not have now.
func (e *expectation) isExpected(now time.Time) bool {
	return e.presence == asked || e.presence == answered && now.Sub(e.since) < unconfirmedTimeout
}

// unconfirmedTimeout is how long an unconfirmed object may be missing from the runtime's
// answers. A creation takes seconds on a busy node. The runtime reports a failed creation
// if NRI is connected then.
const unconfirmedTimeout = 2 * time.Minute

// SetNRI records whether NRI is connected: then the runtime asks before it starts a
// container.
func (m *Inventory) SetNRI(connected bool) { m.objects.hasNRI = connected }

// Expect adds a container that the runtime is about to create, and its pod. The container
// is placed elsewhere if another NRI plugin has given it CPUs. The kubelet requests CPUs
// only if its CPU manager is static (kubeletPlaces).
func (m *Inventory) Expect(p cri.Pod, c cri.Container, kubeletPlaces bool) *Container {
	m.ExpectPod(p)
	// The creation of an earlier container of this name failed without a report.
	o := m.objects
	o.dropUnconfirmed(o.within[c.PodID], func(e *Container) bool { return e.Container.Name == c.Name })
	m.putContainer(lookup.ContainerStatus{Container: c})
	e := o.containers[c.ID]
	e.seenCreated, e.recovered, e.requestedAt, e.expectation = true, true, m.changes, expectation{asked, m.now()}
	e.placedElsewhere = c.Requested.CPUs != "" && !kubeletPlaces
	return e
}

// ExpectPod adds a pod that the runtime has described through NRI, unless the inventory
// has its details. The first event about the pod leads to a question to systemd.
func (m *Inventory) ExpectPod(p cri.Pod) {
	if old := m.objects.pods[p.ID]; old != nil && old.err == nil && !old.unlisted {
		return
	}
	m.putPod(lookup.PodStatus{Pod: p})
	m.objects.pods[p.ID].expectation = expectation{answered, m.now()}
}

// NoteClaimRefs records the references to ResourceClaims that NRI reports of a container.
func (m *Inventory) NoteClaimRefs(id string, refs cri.ClaimRefs) {
	if e := m.objects.containers[id]; e != nil {
		e.Container.Claims = refs
	}
}

// Answer records the reply to the creation of the container: the runtime records these
// CPUs and memory nodes. An empty set leaves the runtime's value. The reply has emptied or
// replaced the variable with shared CPUs.
func (e *Container) Answer(cpus, mems cpuset.Set) {
	e.presence = answered
	e.Container.SharedCPUs = ""
	if !cpus.IsEmpty() {
		e.Recorded = cpus
	}
	if !mems.IsEmpty() {
		e.mems = mems
	}
	e.Exposure().FoundBy(telemetry.WayNRI)
}

// CancelCreate drops a container whose creation the reply forbids.
func (m *Inventory) CancelCreate(id string) { m.objects.dropContainer(id) }

// AbandonCreate drops a container whose request the runtime no longer waits for. It keeps
// a container that is placed elsewhere: the runtime may create it without a reply, and only
// the request shows that another plugin places it.
func (m *Inventory) AbandonCreate(id string) {
	e := m.objects.containers[id]
	if e == nil || !e.placedElsewhere {
		m.objects.dropContainer(id)
		return
	}
	e.presence = answered
}

// MarkStarting records that the runtime has asked to start the container. Its cgroup exists
// and may be written. A listing that began before may lack the container.
func (m *Inventory) MarkStarting(e *Container) {
	e.added = m.tick()
	e.confirm()
	e.starting = true
	e.advance(cri.Created)
}

// IsAsked reports whether the runtime waits for a reply before it creates the container.
func (e *Container) IsAsked() bool { return e.presence == asked }

// IsBeingMade reports whether the OCI runtime still makes the cgroup of the container, which
// may be nil. A write to the cgroup would be lost, or would replace one of the OCI
// runtime. With NRI the runtime asks before the first process runs in the cgroup.
func (e *Container) IsBeingMade() bool {
	return e != nil && e.inventory.objects.hasNRI && e.Container.State == cri.Created && !e.starting
}

// DropMissing drops the objects that only NRI has reported and that are not in there.
func (m *Inventory) DropMissing(there map[string]bool) {
	o := m.objects
	o.dropUnconfirmed(o.containers, func(e *Container) bool { return !there[e.Container.ID] })
	for id, e := range o.pods {
		if e.presence == answered && !there[id] {
			m.unlist(id)
		}
	}
}

// dropUnconfirmed drops the unconfirmed containers of all for which is returns true.
func (m *Objects) dropUnconfirmed(all map[string]*Container, is func(*Container) bool) {
	for id, e := range all {
		if e.presence == answered && is(e) {
			m.dropContainer(id)
		}
	}
}
