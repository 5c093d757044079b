package recovery

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Recovery
//
// A daemon that starts finds containers on exclusive CPUs, moves none of them, and
// has to tell them from those of the shared pool: with guaranteed.from: shared both
// are in the same CPUs. It asks three witnesses: the kernel (what a cgroup asks for
// now), the runtime or systemd (what they would put back; also for containers that
// have exited), and the journal. A set in the guaranteed pool is a container's own,
// if the container is one that is to have CPUs of its own, and
//
//  1. the kernel's set, or else the recorded one, is that of the journal; or
//  2. no other cgroup has any of its CPUs, and it has as many as the container asks
//     for, or fewer: no daemon ever leaves a shared set that overlaps an exclusive
//     one (Diff), and the set of a container that runs in the shared pool is that of
//     all others there, of its own pod's pause container to begin with. Where that
//     has none, the number must be the same, unless the runtime has not told it yet;
//     or else
//  3. the journal's set counts, unless somebody found by 1 or 2 has some of it; or
//     else, with a fixed list,
//  4. the set of kernel or record as it is: nobody but an exclusive container was
//     ever put there. It may be larger or smaller than asked for (a resize; a write
//     on the way), which the plan puts right.
//
// A container that asks for shared CPUs beside its own has both in its set. What of it is
// its own is what the journal says, if that is a part of it; or else what is in the
// guaranteed pool, and in no set of somebody who certainly shares. With guaranteed.from:
// shared that takes somebody who does: a pause container, unless those are elsewhere
// (infraContainers), or one that never gets CPUs of its own. There, too, a set that nobody
// else has some of tells nothing where nobody is known to share, unless it is that of a
// partition: nobody but an owner is made one; or unless enough of the pool is in nobody's
// hands: who shares would have that, too. Known to share are also those that were refused,
// or wait for CPUs of their own, if what they have shows it (shares): they may be all there
// are.
//
// What the runtime has recorded of a container that has ended counts only where there
// is no journal at all: it stays on record when its CPUs are given on, or reserved
// for others. What it has recorded of one that was not started before its pod was
// stopped never counts: it holds no CPUs, and containerd lists it as created for as
// long as it lists the pod.
//
// With a fixed list and a kernel that contradicts the journal, 4 goes before 3. What
// is reserved for pods, and for owners of which nothing else is left, comes from
// the journal alone. Contradictions that remain are the plan's to settle: the older
// container wins.
type recovery struct {
	pools pools.Pools
	// journal has the sets that are on record, by owner.
	journal map[pools.Key]cpuset.Set
	// sets are what cgroups ask for, or would be started with.
	sets []heldSet
	// shared are the CPUs of those who certainly have none of their own.
	shared cpuset.Set
	// held is who has what by the record, or by what has been found before.
	held []pools.Assignment
}

// heldSet is the set of a live cgroup.
type heldSet struct {
	owner pools.Key
	cpus  cpuset.Set
}

// instance is what is known of one instance of an owner.
type instance struct {
	owner    pools.Key
	asked    int        // CPUs; 0 if that is not known
	unread   bool       // the runtime has not told yet, but will
	watched  bool       // its pod's pause container has a set, which a shared container would have too; for a unit, or where pause containers are elsewhere, somebody's has
	mixed    bool       // it asks for shared CPUs beside its own
	parted   bool       // the kernel keeps others off its set
	limited  bool       // it runs with a quota, which an owner's container would have lost
	at       cpuset.Set // where it is, or would be started
	kernel   cpuset.Set
	recorded cpuset.Set // none where the journal knows better
	created  int64
}

// Assignments finds out which exclusive CPUs the containers and units of a
// running node have.
func Assignments(m *inventory.Inventory, read func(cgroup.Path) (cgroup.State, error), journal []pools.Assignment, s *desired.Settings) []pools.Assignment {
	r, instances := newRecovery(m, read, journal, journal, s)
	found := r.find(instances)
	out := make([]pools.Assignment, 0, len(found))
	var taken cpuset.Set
	for key, cpus := range found {
		out = append(out, pools.Assignment{Key: key, CPUs: cpus})
		taken = taken.Union(cpus)
	}
	for _, a := range journal {
		free := a.CPUs
		if _, known := found[a.Key]; known {
			free = cpuset.Set{}
		}
		free, away := free.Difference(taken), a.Away.Difference(taken)
		if !free.IsEmpty() || !away.IsEmpty() {
			out = append(out, pools.Assignment{Key: a.Key, CPUs: free, Away: away})
		}
	}
	return out
}

// Late finds the CPUs of containers and units that have come into the model
// after the recovery, but existed before: they were unreadable, or made while no
// daemon ran, or the configuration did not name them.
// They keep what they have if nobody has got it in the meantime.
func Late(m *inventory.Inventory, read func(cgroup.Path) (cgroup.State, error), held []pools.Assignment, s *desired.Settings) []pools.Assignment {
	has := make(map[pools.Key]bool, len(held))
	var taken cpuset.Set
	for _, a := range held {
		has[a.Key] = true
		taken = taken.Union(a.CPUs, a.Away)
	}
	late, units := m.Unconsidered()
	units = slices.DeleteFunc(units, func(k pools.Key) bool { return has[k] })
	late = slices.DeleteFunc(late, func(e *inventory.Container) bool { return has[m.KeyOf(e)] || !m.MayBeExclusive(e) })
	if len(late)+len(units) == 0 {
		return held
	}
	r, instances := newRecovery(m, read, nil, held, s)
	instances = slices.DeleteFunc(instances, func(i instance) bool {
		return !slices.Contains(units, i.owner) && !slices.ContainsFunc(late, func(e *inventory.Container) bool { return m.KeyOf(e) == i.owner })
	})
	found := r.find(instances)
	for _, key := range slices.SortedFunc(maps.Keys(found), pools.Key.Compare) {
		if cpus := found[key]; !cpus.Overlaps(taken) {
			held = append(slices.Clip(held), pools.Assignment{Key: key, CPUs: cpus})
			taken = taken.Union(cpus)
		}
	}
	return held
}

func newRecovery(m *inventory.Inventory, read func(cgroup.Path) (cgroup.State, error), journal, held []pools.Assignment, s *desired.Settings) (*recovery, []instance) {
	p := s.Pools
	r := &recovery{pools: p, journal: make(map[pools.Key]cpuset.Set, len(journal)), held: held}
	for _, a := range journal {
		r.journal[a.Key] = a.CPUs
	}
	state := func(path cgroup.Path) cgroup.State {
		if path == "" {
			return cgroup.State{}
		}
		st, err := read(path)
		if err != nil {
			return cgroup.State{}
		}
		return st
	}
	asks := func(path cgroup.Path) cpuset.Set { return state(path).CPUs }
	var all []instance
	for e := range m.Containers() {
		key := m.KeyOf(e)
		now := state(e.Path)
		i := instance{owner: key, kernel: now.CPUs, parted: now.Partition.Valid(), recorded: e.Recorded, created: e.Container.CreatedAt.UnixNano()}
		pod := m.PodOf(e)
		stillborn := e.Container.State == cri.Created && pod != nil && !pod.Pod.Ready
		if stillborn || e.Container.State == cri.Exited && len(journal) > 0 {
			i.recorded = cpuset.Set{}
		}
		i.at = i.kernel
		r.hold(key, i.kernel)
		if m.Awaited(cgroup.Target{Container: e.Container.ID}) {
			r.hold(key, i.recorded)
			i.at = either(i.kernel, i.recorded)
		}
		if pod != nil {
			i.watched = !asks(pod.Pause).IsEmpty()
			i.mixed, _, _ = s.Names.Mixed(pod.Pod.Annotations, e.Container.Name)
			i.limited = now.Quota > 0 && e.Container.State == cri.Running && !pod.Unread() && !pools.KeepsQuota(pod.Pod.Annotations, e.Container.Name)
		}
		i.unread = e.Unread()
		if i.asked = e.Request().ExclusiveCPUs(); m.MayBeExclusive(e) {
			all = append(all, i)
		} else if pod != nil {
			r.shared = r.shared.Union(i.kernel)
		}
	}
	for e := range m.Pods() {
		set := asks(e.Pause)
		r.hold(pools.Key{PodUID: e.UID, Container: inventory.InfraName}, set)
		r.shared = r.shared.Union(set)
	}
	for _, u := range p.Units {
		e := m.Unit(u.Name)
		if e == nil {
			continue
		}
		i := instance{owner: pools.Key{Container: u.Name}, asked: u.CPUs, kernel: asks(e.Unit.Path), recorded: e.Unit.CPUs}
		i.at = either(i.kernel, i.recorded)
		r.hold(i.owner, i.kernel)
		r.hold(i.owner, i.recorded)
		if u.CPUs > 0 {
			all = append(all, i)
		}
	}
	r.settle(all)
	return r, all
}

// settle completes what is known of each instance with what is known of all: where
// somebody else is known to share, it would have some of what he has if it shared, too.
func (r *recovery) settle(all []instance) {
	pool := r.pools.Shared
	if r.pools.Infra != "" { // those in partitions say nothing of the shared pool
		for _, part := range r.pools.Partitions {
			pool = pool.Difference(part.CPUs)
		}
	}
	sharing := make(map[pools.Key]bool)
	for _, i := range all {
		if i.at.Overlaps(pool) && r.shares(i) {
			sharing[i.owner] = true
		}
	}
	for j := range all {
		i := &all[j]
		if r.pools.Infra != "" || i.owner.PodUID == "" {
			i.watched = r.shared.Overlaps(pool) || len(sharing) > 1 || len(sharing) == 1 && !sharing[i.owner]
		}
		if i.mixed {
			i.kernel, i.recorded = r.ownOf(i, i.kernel), r.ownOf(i, i.recorded)
		}
	}
}

// shares says that an instance that could have CPUs of its own has none. An owner runs without a
// quota, its set is no larger than what it asks for, and nobody else's overlaps it. Who has CPUs on
// record has them, whatever somebody has written to his cgroup meanwhile.
func (r *recovery) shares(i instance) bool {
	owns := func(a pools.Assignment) bool { return a.Key == i.owner && !a.CPUs.IsEmpty() }
	switch {
	case i.asked == 0, i.unread, i.parted, slices.ContainsFunc(r.held, owns):
		return false
	case i.limited:
		return true
	}
	return !i.mixed && (i.at.Len() > i.asked || r.overlaps(i.owner, i.at))
}

// either is the first of two sets that is not empty.
func either(a, b cpuset.Set) cpuset.Set {
	if a.IsEmpty() {
		return b
	}
	return a
}

// overlaps says that somebody else has some of a set.
func (r *recovery) overlaps(owner pools.Key, cpus cpuset.Set) bool {
	return slices.ContainsFunc(r.sets, func(s heldSet) bool { return s.owner != owner && s.cpus.Overlaps(cpus) })
}

// ownOf is what a container that shares some of its CPUs has for itself.
func (r *recovery) ownOf(i *instance, cpus cpuset.Set) cpuset.Set {
	if journal := r.journal[i.owner]; !journal.IsEmpty() && journal.IsSubsetOf(cpus) && !journal.Overlaps(r.shared) {
		return journal
	}
	return cpus.Intersection(r.pools.Guaranteed.Union(r.pools.Away)).Difference(r.shared)
}

func (r *recovery) hold(owner pools.Key, cpus cpuset.Set) {
	if !cpus.IsEmpty() {
		r.sets = append(r.sets, heldSet{owner, cpus})
	}
}

// find settles who has what, by the rules 1 to 4. Of several instances the newest
// with a cgroup counts.
func (r *recovery) find(all []instance) map[pools.Key]cpuset.Set {
	slices.SortFunc(all, func(a, b instance) int {
		if liveA, liveB := !a.kernel.IsEmpty(), !b.kernel.IsEmpty(); liveA != liveB {
			if liveA {
				return -1
			}
			return 1
		}
		return int(min(max(b.created-a.created, -1), 1))
	})
	found := make(map[pools.Key]cpuset.Set)
	for _, i := range all {
		if _, known := found[i.owner]; known {
			continue
		}
		for _, cpus := range []cpuset.Set{i.kernel, i.recorded} {
			if r.certain(i, cpus) {
				found[i.owner] = cpus
				break
			}
		}
	}
	if r.pools.FromShared {
		return found
	}
	for _, i := range all {
		if _, known := found[i.owner]; known {
			continue
		}
		journal := r.journal[i.owner]
		for _, cpus := range []cpuset.Set{i.kernel, i.recorded} {
			if r.possible(cpus) && !cpus.Overlaps(journal) {
				found[i.owner] = cpus
				break
			}
		}
	}
	return found
}

// roomBeside says that the pool has as many CPUs as it has to keep that are neither in the set nor in
// anybody else's, nor on record for anybody else: what is reserved for a pod is in no set until its
// containers run. If who has the set shared it after all, owners have ended while no daemon ran, and
// he can have it to himself now.
func (r *recovery) roomBeside(i instance, cpus cpuset.Set) bool {
	left := r.pools.Shared.Difference(cpus)
	for _, s := range r.sets {
		if s.owner != i.owner {
			left = left.Difference(s.cpus)
		}
	}
	for _, a := range r.held {
		if a.Key != i.owner {
			left = left.Difference(a.CPUs.Union(a.Away))
		}
	}
	return left.Len() >= max(r.pools.Floor, 1)
}

// possible says that a set can be exclusive at all. Some of it may have gone offline
// while no daemon ran.
func (r *recovery) possible(cpus cpuset.Set) bool {
	return !cpus.IsEmpty() && cpus.IsSubsetOf(r.pools.Guaranteed.Union(r.pools.Away))
}

// certain is the rules 1 and 2.
func (r *recovery) certain(i instance, cpus cpuset.Set) bool {
	elsewhere := r.pools.FromShared && r.pools.Infra != "" // pause containers
	lives := cpus.Equal(i.kernel) || i.owner.PodUID == ""  // what systemd has for a unit, it starts with
	told := i.watched || elsewhere && lives && r.roomBeside(i, cpus)
	switch {
	case !r.possible(cpus):
		return false
	case cpus.Equal(r.journal[i.owner]):
		return true
	case elsewhere && !told && !i.unread && (!i.parted || !cpus.Equal(i.kernel)):
		return false
	}
	// The journal knows of more when a write was on its way.
	short := told && cpus.Len() < i.asked && !r.journal[i.owner].Overlaps(cpus)
	return (cpus.Len() == i.asked || short || i.unread) && !r.overlaps(i.owner, cpus)
}
