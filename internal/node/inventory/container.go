package inventory

import (
	"cmp"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Container is one instance of a container.
type Container struct {
	// Container is the container as the runtime reports it. The state only goes forward.
	Container cri.Container
	// Path is the cgroup, "" if unknown.
	Path cgroup.Path
	// Recorded holds the CPUs in the runtime's spec.
	Recorded cpuset.Set

	mems cpuset.Set // NUMA nodes in the runtime's spec
	unit cgroup.UnitState
	err  error // the reason why Path, Recorded or mems are unknown

	// requestedAt is the clock of the last report by NRI of the kubelet's request.
	requestedAt int
	expectation
	// began and ended are the times of the creation and of the end, on the daemon's clock.
	began, ended time.Time
	history

	inventory *Inventory // nil outside of an inventory, where Pod and the methods that need it panic
}

// history holds the facts about a container that later reports of the runtime keep.
type history struct {
	// added is the clock of the last report that the container exists. A listing that began
	// before may lack the container.
	added int
	// recordedAt is the clock of the daemon's last change of the record.
	recordedAt int
	// seenCreated is true if the daemon has seen the creation.
	seenCreated bool
	// recovered is true after recovery has looked for exclusive CPUs of the container.
	recovered bool
	// starting is true after the runtime has asked to start the container: its cgroup exists.
	starting bool
	// placedElsewhere is true if another NRI plugin, or the kubelet, has given it CPUs.
	placedElsewhere bool
	// placing is the last placement by another CPU manager.
	placing   managers.Placing
	stop      stop
	placement placement
	home      home
	// lostAt is the time since which the container runs without a cgroup, and lostIn the number of
	// listings before; zero if it has one.
	lostAt time.Time
	lostIn int
}

// PutContainer applies the answer to lookup.FetchContainer. It reports whether the answer counts. An error
// does not count. An answer that is older than the removal of the container does not count
// either. A container that NRI has just reported may still be missing in the runtime.
func (m *Inventory) PutContainer(f lookup.ContainerStatus) bool {
	switch {
	case m.isOutdated(f.ID, f.AsOf):
		return false
	case f.Err == nil:
		m.putContainer(f)
		return true
	case errors.Is(f.Err, cri.ErrNotFound):
		if e := m.objects.containers[f.ID]; e != nil && e.isExpected(m.now()) {
			return false
		}
		m.noteMissing(f.ID, f.AsOf)
		m.objects.dropContainer(f.ID)
		return true
	}
	return false
}

// putContainer adds or replaces a container. The state only goes forward: a status that was
// read before an event must not revert the event. Known details survive an answer without
// details.
func (m *Inventory) putContainer(f lookup.ContainerStatus) {
	added, now := m.tick(), m.now()
	e := &Container{inventory: m, Container: f.Container, unit: f.Unit, began: onClock(f.CreatedAt, now), err: f.Partial}
	e.end(f.FinishedAt, now)
	e.seenCreated = !m.watchedSince.IsZero() && !e.began.Before(m.watchedSince)
	if old := m.objects.containers[f.ID]; old != nil {
		if f.Partial != nil && old.err == nil {
			old.advance(f.State)
			old.added = added
			return
		}
		e.follow(old, f.AsOf)
	}
	e.added = added
	switch {
	case f.Own:
		e.settle(homeOwn)
	case f.Hosted:
		e.settle(homeSandbox)
	}
	e.noteLost(f.Lost)
	var pathErr, cpusErr, memsErr error
	e.Path, pathErr = f.Cgroup(m.driver)
	e.Recorded, cpusErr = f.RecordedCPUs()
	e.mems, memsErr = f.RecordedMems()
	e.err = cmp.Or(e.err, pathErr, cpusErr, memsErr)
	m.objects.setContainer(f.ID, e)
}

// follow takes over from an earlier report of the container what a report of asOf keeps.
func (e *Container) follow(old *Container, asOf int) {
	e.history = old.history
	e.advance(old.Container.State)
	now, was := &e.Container, &old.Container
	if !was.CreatedAt.IsZero() { // the times were converted when the container was first reported completely
		e.began = old.began
	}
	if !old.ended.IsZero() {
		e.ended = old.ended
	}
	if e.requestedAt = old.requestedAt; old.requestedAt > asOf {
		now.Requested = was.Requested // the report is older than the resize
	}
	if was.Requested.Quota > 0 && now.Requested.Quota < 0 {
		// Some runtimes report the quota that the daemon's NRI reply has removed.
		now.Requested.Quota, now.Requested.Period = was.Requested.Quota, was.Requested.Period
	}
	now.HasDevices = now.HasDevices || was.HasDevices
	if now.Claims.IsEmpty() {
		now.Claims = was.Claims // NRI alone reports them
	}
	if now.FinishedAt.IsZero() {
		now.FinishedAt = was.FinishedAt
	}
}

// NotePersisted notes that the daemon has changed the record of a container with the runtime
// or systemd.
func (m *Inventory) NotePersisted(e *Container) { e.recordedAt = m.tick() }

// HasRecord reports whether the answer contains the daemon's last change of the record. An
// answer that was requested before the change lacks it.
func (e *Container) HasRecord(f lookup.ContainerStatus) bool {
	return f.AsOf == betweenUpdates || f.AsOf >= e.recordedAt
}

// advance moves the state of a container forward. The values of states are in their order.
func (e *Container) advance(s cri.State) { e.Container.State = max(e.Container.State, s) }

// Record returns the values that the runtime and systemd would write again.
func (e *Container) Record() cgroup.Current {
	return cgroup.Current{Recorded: e.Recorded, RecordedMems: e.mems, RecordedKnown: e.err == nil, Unit: e.unit}
}

// RecordsOthers reports whether CRI-O records CPUs outside cpus after an update with cpus. CRI-O
// adds the CPUs in a variable of the container's environment, and fails the update if it
// cannot parse the variable.
func (e *Container) RecordsOthers(cpus cpuset.Set) bool {
	added, err := cpuset.Parse(e.Container.SharedCPUs)
	return err != nil || !added.IsSubsetOf(cpus)
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

// IsUnread reports whether the runtime has not reported the container's request.
func (e *Container) IsUnread() bool { return e.err != nil && e.Request().Shares == 0 }

// Pod returns the pod of the container, nil if it is unknown.
func (e *Container) Pod() *Pod { return e.inventory.objects.pods[e.Container.PodID] }

// Key returns the owner of which the container is an instance. The sandbox id stands for
// the UID of an unknown pod.
func (e *Container) Key() pools.Key {
	k := pools.Key{PodUID: e.Container.PodID, Container: e.Container.Name}
	if p := e.Pod(); p != nil {
		k.PodUID = p.UID
	}
	return k
}

// MayBeExclusive reports whether the container requests exclusive CPUs, or may do so as far
// as the runtime reports.
func (e *Container) MayBeExclusive() bool {
	p, r := e.Pod(), e.Request()
	return p != nil && (p.QoS == pools.QoSGuaranteed || p.IsUnread()) && (r.Shares == 0 || r.ExclusiveCPUs() > 0)
}

// EarlierInstances returns the ids of earlier instances of the container. The runtime has not reported
// the end of these instances. The kubelet creates an instance after the end of the last instance. The
// runtime reports no event for an instance that has failed to start.
func (e *Container) EarlierInstances() (ids []string) {
	key := e.Key()
	for o := range e.inventory.objects.Members(key.PodUID) {
		if o.presence != asked && o.Container.State != cri.Exited && o.Key() == key && o.Container.CreatedAt.Before(e.Container.CreatedAt) {
			ids = append(ids, o.Container.ID)
		}
	}
	return ids
}
