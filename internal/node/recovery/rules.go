package recovery

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// With guaranteed.from: shared, exclusive and shared containers run on CPUs of the same
// pool. Three sources distinguish them: the kernel (cpuset.cpus of the cgroup), the record
// (the cpuset that the runtime or systemd restores, also for exited containers), and the
// journal. A set in the guaranteed pool is exclusive if its container may have exclusive
// CPUs and one of these rules applies:
//
//  1. The set of the kernel, or else of the record, equals the set in the journal.
//  2. The set of the kernel or the record overlaps no other set, and contains as many CPUs
//     as requested, or fewer. A shared set never fulfils this. Diff leaves no shared set
//     that overlaps an exclusive one, and all containers in the shared pool have the same
//     set, as has their pod's pause container. If the shared set is unknown, the number of
//     CPUs must be equal, unless the request is unknown too.
//  3. The set is in the journal, and overlaps no set found by rule 1 or 2.
//  4. The guaranteed CPUs are a fixed list. Only exclusive containers ever run there. The
//     number of CPUs may differ from the request during a resize or a write; the plan
//     corrects it.
//
// Rule 4 precedes rule 3 if the kernel or the record contradicts the journal. Reserved CPUs
// of pods, and CPUs of owners that are gone, come from the journal alone. The plan resolves
// the remaining conflicts: the older container wins.
//
// Shared CPUs: a container that requests shared CPUs too has both in its set. Its exclusive
// part is the set in the journal if its cpuset contains that set. Otherwise it is the part
// in the guaranteed pool that is in no set of a shared container. This also applies if the
// configuration has no shared CPUs for the container now: an earlier one may have had some.
//
// Pause containers elsewhere (infraContainers): their sets do not show the shared set. Then
// rule 2 also requires one of these facts. Another container shares, which can be one whose
// request was refused (isSharing). The cgroup is a partition, which only owners have. Or the
// pool keeps enough other CPUs, which a shared container would have too (leavesFloor).
//
// ResourceClaims: only the journal has the CPUs of a claim. No rule gives them to a container or unit,
// and no rule gives other CPUs to a container that uses a claim.
//
// Three kinds of records do not count. The CPUs of an exited container may have another owner
// now; its record counts only without a journal. It also does not count while another instance of the
// container has a cgroup. A container that was not started before its
// pod was stopped has no CPUs; containerd lists it as created as long as it
// lists the pod.

// assign applies rules 1, 2 and 4. The newest instance of an owner with a cgroup counts. Without such
// an instance, the records of all instances count, the newest first.
func (e *evidence) assign(all []instance) map[pools.Key]cpuset.Set {
	slices.SortFunc(all, func(a, b instance) int {
		if liveA, liveB := !a.kernel.IsEmpty(), !b.kernel.IsEmpty(); liveA != liveB {
			if liveA {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.created, a.created)
	})
	found, live := make(map[pools.Key]cpuset.Set), make(map[pools.Key]bool)
	for _, i := range all {
		live[i.owner] = live[i.owner] || !i.kernel.IsEmpty()
	}
	apply := func(isExclusive func(instance, cpuset.Set) bool) {
		for _, i := range all {
			if _, known := found[i.owner]; known || live[i.owner] && i.kernel.IsEmpty() {
				continue
			}
			for _, cpus := range []cpuset.Set{i.kernel, i.recorded} {
				if e.canBeExclusive(cpus) && isExclusive(i, cpus) {
					found[i.owner] = cpus
					break
				}
			}
		}
	}
	apply(e.isCertain)
	if !e.pools.FromShared {
		apply(func(i instance, cpus cpuset.Set) bool { return !cpus.Overlaps(e.journal[i.owner]) })
	}
	return found
}

// canBeExclusive includes CPUs that have gone offline while no daemon ran. It excludes CPUs of claims: a
// change of the configuration can make them a part of the guaranteed pool.
func (e *evidence) canBeExclusive(cpus cpuset.Set) bool {
	return !cpus.IsEmpty() && cpus.IsSubsetOf(e.pools.Guaranteed.Union(e.pools.Away)) && !cpus.Overlaps(e.claimed)
}

// isCertain reports whether rule 1 or 2 applies.
func (e *evidence) isCertain(i instance, cpus cpuset.Set) bool {
	pauseElsewhere := e.pools.FromShared && e.pools.Infra != ""
	isInUse := cpus.Equal(i.kernel) || i.owner.IsUnit() // systemd starts a unit with its record
	knowsShared := i.knowsShared || pauseElsewhere && isInUse && e.leavesFloor(i, cpus)
	switch {
	case cpus.Equal(e.journal[i.owner]):
		return true
	case pauseElsewhere && !knowsShared && !i.unread && (!i.partition || !cpus.Equal(i.kernel)):
		return false
	}
	// The journal contains more CPUs if a write was in progress.
	short := knowsShared && cpus.Len() < i.requested && !e.journal[i.owner].Overlaps(cpus)
	return (cpus.Len() == i.requested || short || i.unread) && !e.overlapsOther(i.owner, cpus)
}

// isSharing reports whether an instance that may be exclusive runs in the shared pool. An
// owner of exclusive CPUs has no quota, as many CPUs as requested at most, and a set that
// overlaps no other set. An owner with shared CPUs in addition has more CPUs, and shares some. An
// owner in the journal is exclusive, even if another process has changed its cgroup.
func (e *evidence) isSharing(i instance) bool {
	owns := func(a pools.Assignment) bool { return a.Key == i.owner && !a.CPUs.IsEmpty() }
	switch {
	case i.requested == 0, i.unread, i.partition, slices.ContainsFunc(e.held, owns):
		return false
	case i.limited:
		return true
	}
	return !i.mayMix && (i.runsOn.Len() > i.requested || e.overlapsOther(i.owner, i.runsOn))
}

func (e *evidence) exclusivePart(i *instance, cpus cpuset.Set) cpuset.Set {
	if journal := e.journal[i.owner]; !journal.IsEmpty() && journal.IsSubsetOf(cpus) && !journal.Overlaps(e.shared) {
		return journal
	}
	return cpus.Intersection(e.pools.Guaranteed.Union(e.pools.Away)).Difference(e.shared.Union(e.claimed))
}

// leavesFloor reports whether the pool keeps its floor without the set and without the CPUs
// of all other owners. Assignments count too, because reserved CPUs of a pod are in no set before
// its containers run. If the container with the set shared it nevertheless, the other owners
// ended while no daemon ran, and the set can become exclusive.
func (e *evidence) leavesFloor(i instance, cpus cpuset.Set) bool {
	left := e.pools.Shared.Difference(cpus)
	for _, s := range e.sets {
		if s.owner != i.owner {
			left = left.Difference(s.cpus)
		}
	}
	for _, a := range e.held {
		if a.Key != i.owner {
			left = left.Difference(a.CPUs.Union(a.Away))
		}
	}
	return left.Len() >= max(e.pools.Floor, 1)
}
