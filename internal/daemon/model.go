package daemon

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/internal/managers"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// infraName is the pause container's name, as CRI-O calls it. A container of a
// pod's spec cannot have it: upper case is not allowed there.
const infraName = "POD"

// model is what the runtime has told about the node. What a container is does
// not change after its creation, so it is asked for once.
type model struct {
	driver     cgroup.Driver
	clock      int                        // counts changes, to tell old listings from new entries
	pods       map[string]*podEntry       // by sandbox id
	containers map[string]*containerEntry // by container id
	// sandboxes are the pods by UID and sandbox id, and within the containers by sandbox
	// and container id: see members.go.
	sandboxes map[string]map[string]*podEntry
	within    map[string]map[string]*containerEntry
	units     map[string]*unitEntry // by the name in the configuration
	removed   map[string]int        // when a container or sandbox was deleted, on clock
	// started is when the daemon began to watch; zero before the first listing is
	// in. What is made later, the daemon sees being made.
	started time.Time
	// asksFirst says that the runtime asks before it starts a container (NRI).
	asksFirst bool
}

type podEntry struct {
	pod       cri.Pod
	uid       string
	qos       pools.QoS
	slice     cgroup.Path // of the pod, "" if unknown
	pause     cgroup.Path // of the pause container, "" if it has none
	sliceUnit cgroup.UnitState
	pauseUnit cgroup.UnitState
	added     int
	err       error // why slice or pause are unknown
	// unconfirmed and since are as in containerEntry.
	unconfirmed bool
	since       time.Time
	// total is the pod's after a resize, as long as the runtime tells another.
	total pools.Resources
	// unlisted says that the runtime does not list the sandbox, but containers of it.
	unlisted bool
	began    time.Time // on the daemon's clock
}

type containerEntry struct {
	container cri.Container
	path      cgroup.Path
	recorded  cpuset.Set // in the runtime's spec
	mems      cpuset.Set // likewise, NUMA nodes
	unit      cgroup.UnitState
	added     int
	told      int   // the model's clock when NRI last told what the kubelet asks for
	err       error // why path or recorded are unknown
	// foreign says that somebody else had given it CPUs before NRI asked about it, claimed
	// by what of CRI-O's it was placed when that was last configured.
	foreign bool
	claimed managers.Claim
	// unborn says that the runtime waits for our answer before it makes the container,
	// unconfirmed that it has got one and has not shown yet that it has it (hooks.go).
	unborn, unconfirmed bool
	// starting says that the runtime has asked whether it may start it.
	starting bool
	// since is when NRI told of it; no clock that is set changes it.
	since time.Time
	// born says that the daemon has seen it being created; considered that its CPUs
	// have been recovered, if it had any.
	born, considered bool
	fate             fate
	sighting         sighting
	// began and ended are when it was created and has ended, on the daemon's clock.
	began, ended time.Time
}

func newModel(d cgroup.Driver) *model {
	return &model{
		driver: d, pods: make(map[string]*podEntry), containers: make(map[string]*containerEntry), units: make(map[string]*unitEntry), removed: make(map[string]int),
		sandboxes: make(map[string]map[string]*podEntry), within: make(map[string]map[string]*containerEntry),
	}
}

// putPod adds or replaces a pod.
func (m *model) putPod(f podFacts) {
	m.clock++
	e := &podEntry{pod: f.Pod, uid: cmp.Or(f.UID, f.ID), sliceUnit: f.slice, pauseUnit: f.pause, added: m.clock,
		began: onClock(f.CreatedAt, time.Now())}
	if old := m.pods[f.ID]; old != nil {
		if f.partial != nil && old.err == nil {
			// A worse answer than the one before would move the pod's containers.
			old.pod.Ready, old.added, old.unlisted = old.pod.Ready && f.Ready, m.clock, false
			return
		}
		e.pod.Ready = e.pod.Ready && old.pod.Ready // a sandbox never gets ready again
		if !old.pod.CreatedAt.IsZero() {
			e.began = old.began
		}
		e.outgrown(old)
	}
	if e.slice, e.pause = f.foundSlice, f.foundPause; !f.lost() {
		e.slice, e.pause, e.err = podPaths(f.Pod, m.driver)
	}
	e.err = cmp.Or(f.partial, e.err)
	if _, qos, ok := cgroup.PodOf(e.slice); ok {
		e.qos = pools.QoS(qos)
	}
	m.setPod(f.ID, e)
}

// name is the pod's, for people; empty if it is not known.
func (e *podEntry) name() string {
	if e.pod.Name == "" {
		return ""
	}
	return e.pod.Namespace + "/" + e.pod.Name
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

// putContainer adds or replaces a container. States only go forward: a status
// that was read before an event must not take the event back.
func (m *model) putContainer(f containerFacts) {
	m.clock++
	e := &containerEntry{container: f.Container, unit: f.unit, added: m.clock, err: f.partial}
	e.began = onClock(f.CreatedAt, time.Now())
	e.finish(f.FinishedAt)
	e.born = !m.started.IsZero() && !e.began.Before(m.started)
	if old := m.containers[f.ID]; old != nil {
		if f.partial != nil && old.err == nil {
			old.advance(f.State)
			return
		}
		e.added, e.born, e.considered, e.foreign, e.claimed, e.fate, e.sighting, e.starting = old.added, old.born, old.considered, old.foreign, old.claimed, old.fate, old.sighting, old.starting
		e.container.State = max(old.container.State, f.State)
		e.remember(old)
		if e.told = old.told; old.told > f.asOf {
			e.container.Requested = old.container.Requested // asked before the resize
		}
		if was := old.container.Requested; was.Quota > 0 && e.container.Requested.Quota < 0 {
			// Some runtimes show what NRI has made of it.
			e.container.Requested.Quota, e.container.Requested.Period = was.Quota, was.Period
		}
		if f.FinishedAt.IsZero() {
			e.container.FinishedAt = old.container.FinishedAt
		}
	}
	var pathErr, cpusErr, memsErr error
	if e.path = f.found; !f.lost() {
		e.path, pathErr = cgroup.ContainerPath(f.CgroupsPath, m.driver)
	}
	e.recorded, cpusErr = f.RecordedCPUs()
	e.mems, memsErr = f.RecordedMems()
	e.err = cmp.Or(e.err, pathErr, cpusErr, memsErr)
	m.setContainer(f.ID, e)
}

// advance moves a container's state forward.
func (e *containerEntry) advance(s cri.State) {
	e.container.State = max(e.container.State, s)
}

// merge takes over the pods and containers of a complete listing. Entries that are newer
// than the listing are left alone; details of known entries are kept.
func (m *model) merge(l listed) {
	seen := make(map[string]bool, len(l.pods)+len(l.containers)+len(l.known.pods)+len(l.known.containers))
	pod := func(p podFacts) {
		if m.outdated(p.ID, l.asOf) {
			return
		}
		seen[p.ID] = true
		old := m.pods[p.ID]
		switch {
		case p.Detailed, p.partial != nil && (old == nil || old.unlisted):
			m.putPod(p)
		case old != nil && old.added <= l.asOf:
			old.pod.Ready = old.pod.Ready && p.Ready
		}
		if old != nil {
			old.unconfirmed = false
		}
	}
	container := func(c containerFacts) {
		if m.outdated(c.ID, l.asOf) {
			return
		}
		seen[c.ID] = true
		old := m.containers[c.ID]
		switch {
		case c.Detailed, old == nil && c.partial != nil:
			m.putContainer(c)
			if old == nil && c.State == cri.Running {
				m.containers[c.ID].foundBy(telemetry.WayResync)
			}
		case old != nil:
			old.advance(c.State)
			old.unconfirmed = false
		}
	}
	for i := range l.pods {
		pod(l.pods[i])
	}
	for i := range l.known.pods {
		pod(podFacts{Pod: l.known.pods[i]})
	}
	for i := range l.containers {
		container(l.containers[i])
	}
	for i := range l.known.containers {
		container(containerFacts{Container: l.known.containers[i]})
	}
	now := time.Now()
	for id, e := range m.containers {
		if !seen[id] && e.added <= l.asOf && !e.expected(now) {
			m.dropContainer(id)
		}
	}
	for id, e := range m.pods {
		if !seen[id] && e.added <= l.asOf && !e.expected(now) {
			m.unlist(id)
		}
	}
	for _, e := range m.containers {
		// The pod of one that is newer than the listing is being asked for.
		if id := e.container.PodID; seen[e.container.ID] && id != "" && m.pods[id] == nil {
			m.unlist(id)
		}
	}
	m.forgetRemoved(l.asOf)
}

// recorded returns what is known of a target's record before its cgroup is read.
func (m *model) recorded(t cgroup.Target) cgroup.Current {
	if e := m.containers[t.Container]; e != nil {
		return e.record()
	}
	if e := m.units[m.unitAt(t.Path)]; e != nil {
		return e.record()
	}
	for _, e := range m.pods {
		switch t.Path {
		case e.pause:
			return cgroup.Current{Recorded: e.pauseUnit.CPUs, RecordedKnown: e.pauseUnit.Known, Unit: e.pauseUnit}
		case e.slice:
			return cgroup.Current{Unit: e.sliceUnit}
		}
	}
	return cgroup.Current{}
}

// container returns the id of the container whose cgroup p is, "" if it is none's.
func (m *model) container(p cgroup.Path) string {
	for id, e := range m.containers {
		if e.path == p {
			return id
		}
	}
	return ""
}

// sandbox returns the id of the pod whose pause container or slice p is.
func (m *model) sandbox(p cgroup.Path) string {
	for id, e := range m.pods {
		if e.pause == p || e.slice == p {
			return id
		}
	}
	return ""
}

// record is what the runtime and systemd would put back.
func (e *containerEntry) record() cgroup.Current {
	return cgroup.Current{Recorded: e.recorded, RecordedMems: e.mems, RecordedKnown: e.err == nil, Unit: e.unit}
}

// awaited says that a target's cgroup may be missing because its container, or its
// unit, has not been started yet.
func (m *model) awaited(t cgroup.Target) bool {
	if t.Unit != "" {
		return true
	}
	e := m.containers[t.Container]
	return e != nil && e.container.State == cri.Created
}

// knownIDs returns the pods and containers whose details need not be asked for
// again.
func (m *model) knownIDs() map[string]bool {
	known := make(map[string]bool, len(m.pods)+len(m.containers))
	for id, e := range m.pods {
		known[id] = e.err == nil && !e.unlisted && !e.unconfirmed
	}
	for id, e := range m.containers {
		// When it finished tells which kind it was.
		ended := e.container.State == cri.Exited && e.container.FinishedAt.IsZero()
		known[id] = e.err == nil && !ended && !e.unconfirmed
	}
	return known
}
