package inventory

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// InfraName is the pause container's name, as CRI-O calls it. A container of a
// pod's spec cannot have it: upper case is not allowed there.
const InfraName = "POD"

// Inventory is what the runtime has told about the node. What a container is does
// not change after its creation, so it is asked for once.
type Inventory struct {
	driver     cgroup.Driver
	Clock      int                   // counts changes, to tell old listings from new entries
	Pods       map[string]*Pod       // by sandbox id
	Containers map[string]*Container // by container id
	// sandboxes are the pods by UID and sandbox id, and within the containers by sandbox
	// and container id: see members.go.
	sandboxes map[string]map[string]*Pod
	within    map[string]map[string]*Container
	Units     map[string]*Unit // by the name in the configuration
	Removed   map[string]int   // when a container or sandbox was deleted, on clock
	// Started is when the daemon began to watch; zero before the first listing is
	// in. What is made later, the daemon sees being made.
	Started time.Time
	// AsksFirst says that the runtime asks before it starts a container (NRI).
	AsksFirst bool
}

type Pod struct {
	Pod       cri.Pod
	Uid       string
	Qos       pools.QoS
	Slice     cgroup.Path // of the pod, "" if unknown
	Pause     cgroup.Path // of the pause container, "" if it has none
	sliceUnit cgroup.UnitState
	pauseUnit cgroup.UnitState
	added     int
	Err       error // why slice or pause are unknown
	// Unconfirmed and since are as in containerEntry.
	Unconfirmed bool
	since       time.Time
	// total is the pod's after a resize, as long as the runtime tells another.
	total pools.Resources
	// Unlisted says that the runtime does not list the sandbox, but containers of it.
	Unlisted bool
	Began    time.Time // on the daemon's clock
}

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
	// unconfirmed that it has got one and has not shown yet that it has it (hooks.go).
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

func New(d cgroup.Driver) *Inventory {
	return &Inventory{
		driver: d, Pods: make(map[string]*Pod), Containers: make(map[string]*Container), Units: make(map[string]*Unit), Removed: make(map[string]int),
		sandboxes: make(map[string]map[string]*Pod), within: make(map[string]map[string]*Container),
	}
}

// PutPod adds or replaces a pod.
func (m *Inventory) PutPod(f PodStatus) {
	m.Clock++
	e := &Pod{Pod: f.Pod, Uid: cmp.Or(f.UID, f.ID), sliceUnit: f.slice, pauseUnit: f.pause, added: m.Clock,
		Began: OnClock(f.CreatedAt, time.Now())}
	if old := m.Pods[f.ID]; old != nil {
		if f.Partial != nil && old.Err == nil {
			// A worse answer than the one before would move the pod's containers.
			old.Pod.Ready, old.added, old.Unlisted = old.Pod.Ready && f.Ready, m.Clock, false
			return
		}
		e.Pod.Ready = e.Pod.Ready && old.Pod.Ready // a sandbox never gets ready again
		if !old.Pod.CreatedAt.IsZero() {
			e.Began = old.Began
		}
		e.outgrown(old)
	}
	if e.Slice, e.Pause = f.foundSlice, f.foundPause; !f.lost() {
		e.Slice, e.Pause, e.Err = podPaths(f.Pod, m.driver)
	}
	e.Err = cmp.Or(f.Partial, e.Err)
	if _, qos, ok := cgroup.PodOf(e.Slice); ok {
		e.Qos = pools.QoS(qos)
	}
	m.setPod(f.ID, e)
}

// Name is the pod's, for people; empty if it is not known.
func (e *Pod) Name() string {
	if e.Pod.Name == "" {
		return ""
	}
	return e.Pod.Namespace + "/" + e.Pod.Name
}

func podPaths(p cri.Pod, d cgroup.Driver) (slice, pause cgroup.Path, err error) {
	if p.CgroupsPath != "" {
		if pause, err = cgroup.ContainerPath(p.CgroupsPath, d); err != nil {
			return "", "", err
		}
	}
	if p.CgroupParent != "" {
		slice, err = cgroup.PodPath(p.CgroupParent, d)
		return slice, pause, err
	}
	return pause.Parent(), pause, nil
}

// PutContainer adds or replaces a container. States only go forward: a status
// that was read before an event must not take the event back.
func (m *Inventory) PutContainer(f ContainerStatus) {
	m.Clock++
	e := &Container{Container: f.Container, unit: f.unit, added: m.Clock, Err: f.Partial}
	e.Began = OnClock(f.CreatedAt, time.Now())
	e.Finish(f.FinishedAt)
	e.SeenCreated = !m.Started.IsZero() && !e.Began.Before(m.Started)
	if old := m.Containers[f.ID]; old != nil {
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

// Merge takes over the pods and containers of a complete listing. Entries that are newer
// than the listing are left alone; details of known entries are kept.
func (m *Inventory) Merge(l Listing) {
	seen := make(map[string]bool, len(l.Pods)+len(l.Containers)+len(l.Known.Pods)+len(l.Known.Containers))
	pod := func(p PodStatus) {
		if m.Outdated(p.ID, l.AsOf) {
			return
		}
		seen[p.ID] = true
		old := m.Pods[p.ID]
		switch {
		case p.Detailed, p.Partial != nil && (old == nil || old.Unlisted):
			m.PutPod(p)
		case old != nil && old.added <= l.AsOf:
			old.Pod.Ready = old.Pod.Ready && p.Ready
		}
		if old != nil {
			old.Unconfirmed = false
		}
	}
	container := func(c ContainerStatus) {
		if m.Outdated(c.ID, l.AsOf) {
			return
		}
		seen[c.ID] = true
		old := m.Containers[c.ID]
		switch {
		case c.Detailed, old == nil && c.Partial != nil:
			m.PutContainer(c)
			if old == nil && c.State == cri.Running {
				m.Containers[c.ID].FoundBy(telemetry.WayResync)
			}
		case old != nil:
			old.Advance(c.State)
			old.Unconfirmed = false
		}
	}
	for i := range l.Pods {
		pod(l.Pods[i])
	}
	for i := range l.Known.Pods {
		pod(PodStatus{Pod: l.Known.Pods[i]})
	}
	for i := range l.Containers {
		container(l.Containers[i])
	}
	for i := range l.Known.Containers {
		container(ContainerStatus{Container: l.Known.Containers[i]})
	}
	now := time.Now()
	for id, e := range m.Containers {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.DropContainer(id)
		}
	}
	for id, e := range m.Pods {
		if !seen[id] && e.added <= l.AsOf && !e.Expected(now) {
			m.Unlist(id)
		}
	}
	for _, e := range m.Containers {
		// The pod of one that is newer than the listing is being asked for.
		if id := e.Container.PodID; seen[e.Container.ID] && id != "" && m.Pods[id] == nil {
			m.Unlist(id)
		}
	}
	m.ForgetRemoved(l.AsOf)
}

// Recorded returns what is known of a target's record before its cgroup is read.
func (m *Inventory) Recorded(t cgroup.Target) cgroup.Current {
	if e := m.Containers[t.Container]; e != nil {
		return e.Record()
	}
	if e := m.Units[m.UnitAt(t.Path)]; e != nil {
		return e.Record()
	}
	for _, e := range m.Pods {
		switch t.Path {
		case e.Pause:
			return cgroup.Current{Recorded: e.pauseUnit.CPUs, RecordedKnown: e.pauseUnit.Known, Unit: e.pauseUnit}
		case e.Slice:
			return cgroup.Current{Unit: e.sliceUnit}
		}
	}
	return cgroup.Current{}
}

// Container returns the id of the container whose cgroup p is, "" if it is none's.
func (m *Inventory) Container(p cgroup.Path) string {
	for id, e := range m.Containers {
		if e.Path == p {
			return id
		}
	}
	return ""
}

// Sandbox returns the id of the pod whose pause container or slice p is.
func (m *Inventory) Sandbox(p cgroup.Path) string {
	for id, e := range m.Pods {
		if e.Pause == p || e.Slice == p {
			return id
		}
	}
	return ""
}

// Record is what the runtime and systemd would put back.
func (e *Container) Record() cgroup.Current {
	return cgroup.Current{Recorded: e.Recorded, RecordedMems: e.Mems, RecordedKnown: e.Err == nil, Unit: e.unit}
}

// Awaited says that a target's cgroup may be missing because its container, or its
// unit, has not been started yet.
func (m *Inventory) Awaited(t cgroup.Target) bool {
	if t.Unit != "" {
		return true
	}
	e := m.Containers[t.Container]
	return e != nil && e.Container.State == cri.Created
}

// KnownIDs returns the pods and containers whose details need not be asked for
// again.
func (m *Inventory) KnownIDs() map[string]bool {
	known := make(map[string]bool, len(m.Pods)+len(m.Containers))
	for id, e := range m.Pods {
		known[id] = e.Err == nil && !e.Unlisted && !e.Unconfirmed
	}
	for id, e := range m.Containers {
		// When it finished tells which kind it was.
		ended := e.Container.State == cri.Exited && e.Container.FinishedAt.IsZero()
		known[id] = e.Err == nil && !ended && !e.Unconfirmed
	}
	return known
}
