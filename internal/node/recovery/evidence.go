package recovery

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

type evidence struct {
	pools    pools.Pools
	journal  map[pools.Key]cpuset.Set // CPUs in the journal, by owner.
	sets     []ownedSet               // cpusets of live cgroups, and those with which they will be started.
	shared   cpuset.Set               // CPUs of containers without exclusive CPUs.
	podLevel map[string]bool          // UIDs of pods with pod-level resources
	held     []pools.Assignment       // assignments in the journal, or those found before
	claimed  cpuset.Set               // CPUs of ResourceClaims, online and offline; no other owner has them
}

type ownedSet struct {
	owner pools.Key
	cpus  cpuset.Set
}

// instance holds the facts about one instance of a container, or about a unit.
type instance struct {
	owner     pools.Key
	requested int  // CPUs; 0 means unknown
	unread    bool // the description by the runtime is missing.
	mixed     bool // it requests shared CPUs too. The configuration may have no such CPUs now.
	mayMix    bool // mixed, and the configuration grants it in its namespace.
	partition bool // the cgroup is a partition
	limited   bool // it runs with a quota; the daemon lifts the quota of exclusive containers.
	// knowsShared reports whether the cpuset of a container in the shared pool is known. All
	// shared sets overlap it. Unless pause containers run elsewhere, the pause container of
	// the instance's pod shows it.
	knowsShared bool
	runsOn      cpuset.Set // kernel, or recorded before the start
	kernel      cpuset.Set // cpuset.cpus
	recorded    cpuset.Set // by the runtime or systemd; empty where the record does not count
	created     int64
}

// collect reads all facts, and returns the instances that may have exclusive CPUs.
func collect(m *inventory.Objects, read func(cgroup.Path) (cgroup.State, error), journal, held []pools.Assignment, claims []pools.Claim, s *desired.Settings) (*evidence, []instance) {
	e := &evidence{pools: s.Pools, journal: make(map[pools.Key]cpuset.Set, len(journal)), podLevel: make(map[string]bool), held: held, claimed: claimed(held)}
	sharers := make(map[pools.Key]bool)
	ofPod := make(map[string]cpuset.Set) // in the journal, by UID
	for _, a := range journal {
		if a.Claim != "" {
			continue
		}
		e.journal[a.Key] = a.CPUs
		ofPod[a.PodUID] = ofPod[a.Key.PodUID].Union(a.CPUs)
		for _, name := range a.Sharers {
			sharers[pools.Key{PodUID: a.PodUID, Container: name}] = true
		}
	}
	for pod := range m.Pods() {
		if p := m.InputOf(pod.UID, time.Time{}); p.HasPodLevelResources() {
			e.podLevel[pod.UID] = true
		}
	}
	states := map[cgroup.Path]cgroup.State{"": {}}
	state := func(p cgroup.Path) cgroup.State {
		st, known := states[p] // all containers of a pod ask for its pause container
		if !known {
			if now, err := read(p); err == nil {
				st = now
			}
			states[p] = st
		}
		return st
	}
	var all []instance
	for c := range m.Containers() {
		pod := c.Pod()
		i := containerInstance(c, pod, state(c.Path), len(e.journal) > 0, s)
		e.addSet(i.owner, i.kernel)
		if m.IsAwaited(cgroup.Target{Container: c.Container.ID}) {
			e.addSet(i.owner, i.recorded)
			i.runsOn = firstNonEmpty(i.kernel, i.recorded)
		}
		if pod != nil {
			i.knowsShared = !state(pod.Pause).CPUs.IsEmpty()
		}
		if usesClaim(i.owner, claims) {
			continue // it has no CPUs in addition, and does not show the shared set
		}
		uid, set := i.owner.PodUID, firstNonEmpty(i.kernel, i.recorded)
		if sharers[i.owner] || e.podLevel[uid] && e.journal[i.owner].IsEmpty() && !set.IsEmpty() && set.IsSubsetOf(ofPod[uid]) {
			continue // it runs on the CPUs of its pod
		}
		if c.MayBeExclusive() {
			all = append(all, i)
		} else if pod != nil {
			e.shared = e.shared.Union(i.runsOn)
		}
	}
	for pod := range m.Pods() {
		set := state(pod.Pause).CPUs
		e.addSet(pools.Key{PodUID: pod.UID, Container: pools.InfraName}, set)
		e.shared = e.shared.Union(set)
	}
	for _, spec := range s.Pools.Units {
		u := m.Units().Get(spec.Name)
		if u == nil {
			continue
		}
		i := instance{owner: pools.Key{Container: spec.Name}, requested: spec.CPUs, kernel: state(u.Unit.Path).CPUs, recorded: u.Unit.CPUs}
		i.runsOn = firstNonEmpty(i.kernel, i.recorded)
		e.addSet(i.owner, i.kernel)
		e.addSet(i.owner, i.recorded)
		if spec.CPUs > 0 {
			all = append(all, i)
		}
	}
	e.compare(all)
	return e, all
}

func containerInstance(c *inventory.Container, pod *inventory.Pod, now cgroup.State, hasJournal bool, s *desired.Settings) instance {
	i := instance{
		owner: c.Key(), requested: c.Request().ExclusiveCPUs(), unread: c.IsUnread(), partition: now.Partition.Valid(),
		kernel: now.CPUs, runsOn: now.CPUs, recorded: c.Recorded, created: c.Container.CreatedAt.UnixNano(),
	}
	neverStarted := c.Container.State == cri.Created && pod != nil && !pod.Pod.Ready
	if neverStarted || c.Container.State == cri.Exited && hasJournal {
		i.recorded = cpuset.Set{}
	}
	if pod != nil {
		i.mixed, _, _ = s.Names.Mixed(pod.Pod.Annotations, c.Container.Name)
		i.mayMix = i.mixed && s.Pools.Mixed.Allows(pod.Pod.Namespace)
		i.limited = now.Quota > 0 && c.Container.State == cri.Running && !pod.IsUnread() && !pools.KeepsQuota(pod.Pod.Annotations, c.Container.Name)
	}
	return i
}

// compare finds containers that share although they may be exclusive, and the exclusive part of sets
// with shared CPUs.
func (e *evidence) compare(all []instance) {
	pool := e.pools.Shared
	if e.pools.Infra != "" { // containers of management pools do not show the shared set
		for _, part := range e.pools.Partitions {
			pool = pool.Difference(part.CPUs)
		}
	}
	sharing := make(map[pools.Key]bool)
	for _, i := range all {
		if i.runsOn.Overlaps(pool) && e.isSharing(i) {
			sharing[i.owner] = true
		}
	}
	for j := range all {
		i := &all[j]
		if e.pools.Infra != "" || i.owner.IsUnit() {
			i.knowsShared = e.shared.Overlaps(pool) || len(sharing) > 1 || len(sharing) == 1 && !sharing[i.owner]
		}
		if i.mixed {
			i.kernel, i.recorded = e.exclusivePart(i, i.kernel), e.exclusivePart(i, i.recorded)
		}
	}
}

func (e *evidence) addSet(owner pools.Key, cpus cpuset.Set) {
	if !cpus.IsEmpty() {
		e.sets = append(e.sets, ownedSet{owner, cpus})
	}
}

// overlapsOther ignores containers that share CPUs of a pod with pod-level resources: their sets are
// equal, and the pause container has another one.
func (e *evidence) overlapsOther(owner pools.Key, cpus cpuset.Set) bool {
	return slices.ContainsFunc(e.sets, func(s ownedSet) bool {
		shared := e.podLevel[owner.PodUID] && s.owner.PodUID == owner.PodUID && s.owner.Container != pools.InfraName && s.cpus.Equal(cpus)
		return s.owner != owner && s.cpus.Overlaps(cpus) && !shared
	})
}

// claimed returns the CPUs of claims.
func claimed(all []pools.Assignment) (cpus cpuset.Set) {
	for _, a := range all {
		if a.Claim != "" {
			cpus = cpus.Union(a.CPUs, a.Away)
		}
	}
	return cpus
}

// usesClaim reports whether a container uses one of the claims.
func usesClaim(k pools.Key, claims []pools.Claim) bool {
	return slices.ContainsFunc(claims, func(c pools.Claim) bool { return c.UsedBy(k.PodUID, k.Container) })
}

func firstNonEmpty(a, b cpuset.Set) cpuset.Set {
	if a.IsEmpty() {
		return b
	}
	return a
}
