package inventory

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

type Container struct {
	Container   cri.Container
	Path        cgroup.Path
	Recorded    cpuset.Set // in the runtime's spec
	Mems        cpuset.Set // likewise, NUMA nodes
	unit        cgroup.UnitState
	added       int
	requestedAt int   // the model's clock when NRI last told what the kubelet asks for
	Err         error // why path or recorded are unknown
	// PlacedElsewhere says that somebody else had given it CPUs before NRI asked about it, claimed
	// by what of CRI-O's it was placed when that was last configured.
	PlacedElsewhere bool
	Claimed         managers.Claim
	// Asked says that the runtime waits for our answer before it makes the container,
	// unconfirmed that it has got one and has not shown yet that it has it (daemon, hooks.go).
	Asked, Unconfirmed bool
	// Starting says that the runtime has asked whether it may start it.
	Starting bool
	// since is when NRI told of it; no clock that is set changes it.
	since time.Time
	// SeenCreated says that the daemon has seen it being created; considered that its CPUs
	// have been recovered, if it had any.
	SeenCreated, Recovered bool
	Fate                   StopState
	Sighting               Start
	// Began and ended are when it was created and has ended, on the daemon's clock.
	Began, Ended time.Time
}

// PutContainer adds or replaces a container. States only go forward: a status
// that was read before an event must not take the event back.
func (m *Inventory) PutContainer(f ContainerStatus) {
	m.Clock++
	e := &Container{Container: f.Container, unit: f.unit, added: m.Clock, Err: f.Partial}
	e.Began = OnClock(f.CreatedAt, m.now())
	e.Finish(f.FinishedAt, m.now())
	e.SeenCreated = !m.Started.IsZero() && !e.Began.Before(m.Started)
	if old := m.containers[f.ID]; old != nil {
		if f.Partial != nil && old.Err == nil {
			old.Advance(f.State)
			return
		}
		e.added, e.SeenCreated, e.Recovered, e.PlacedElsewhere, e.Claimed, e.Fate, e.Sighting, e.Starting = old.added, old.SeenCreated, old.Recovered, old.PlacedElsewhere, old.Claimed, old.Fate, old.Sighting, old.Starting
		e.Container.State = max(old.Container.State, f.State)
		e.remember(old)
		if e.requestedAt = old.requestedAt; old.requestedAt > f.AsOf {
			e.Container.Requested = old.Container.Requested // asked before the resize
		}
		if was := old.Container.Requested; was.Quota > 0 && e.Container.Requested.Quota < 0 {
			// Some runtimes show what NRI has made of it.
			e.Container.Requested.Quota, e.Container.Requested.Period = was.Quota, was.Period
		}
		if f.FinishedAt.IsZero() {
			e.Container.FinishedAt = old.Container.FinishedAt
		}
	}
	var pathErr, cpusErr, memsErr error
	if e.Path = f.found; !f.lost() {
		e.Path, pathErr = cgroup.ContainerPath(f.CgroupsPath, m.driver)
	}
	e.Recorded, cpusErr = f.RecordedCPUs()
	e.Mems, memsErr = f.RecordedMems()
	e.Err = cmp.Or(e.Err, pathErr, cpusErr, memsErr)
	m.SetContainer(f.ID, e)
}

// Advance moves a container's state forward.
func (e *Container) Advance(s cri.State) {
	e.Container.State = max(e.Container.State, s)
}

// Record is what the runtime and systemd would put back.
func (e *Container) Record() cgroup.Current {
	return cgroup.Current{Recorded: e.Recorded, RecordedMems: e.Mems, RecordedKnown: e.Err == nil, Unit: e.unit}
}

// Request returns the resources that the kubelet requests for the container. Older
// runtimes report only the recorded resources, which NRI may have changed.
func (e *Container) Request() pools.Resources {
	if e.Container.Requested.Shares == 0 {
		return resourcesOf(e.Container.Recorded)
	}
	return resourcesOf(e.Container.Requested)
}

func resourcesOf(r cri.Resources) pools.Resources {
	return pools.Resources{Shares: r.Shares, Quota: r.Quota, Period: r.Period}
}

// KeyOf names the owner that a container is an instance of.
func (m *Inventory) KeyOf(e *Container) pools.Key {
	p := m.pods[e.Container.PodID]
	if p == nil {
		return pools.Key{PodUID: e.Container.PodID, Container: e.Container.Name}
	}
	return pools.Key{PodUID: p.UID, Container: e.Container.Name}
}

// MayBeExclusive says that a container is one of those that get CPUs of their own,
// or that it cannot be told.
func (m *Inventory) MayBeExclusive(e *Container) bool {
	p, r := m.pods[e.Container.PodID], e.Request()
	return p != nil && (p.QoS == pools.QoSGuaranteed || p.Unread()) && (r.Shares == 0 || r.ExclusiveCPUs() > 0)
}

// Unread says that the runtime has not told what a container asks for.
func (e *Container) Unread() bool { return e.Err != nil && e.Request().Shares == 0 }
