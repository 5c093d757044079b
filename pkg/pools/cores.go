package pools

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// The functions below are for owners with one-owner-per-core. The other threads of their
// cores are idle siblings: not free for any other owner, and not in the shared pool.

// coresOf returns all threads of the cores of cpus.
func (a *assigner) coresOf(cpus cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for cpu := range cpus.All() {
		all = all.Union(a.machine.Topology().ThreadSiblings(cpu))
	}
	return all
}

// recount computes the idle siblings and the free CPUs.
func (a *assigner) recount() {
	all := held(a.demands)
	a.idle = cpuset.Set{}
	for i := range a.demands {
		if c := &a.demands[i]; c.options.OneOwnerPerCore {
			a.idle = a.idle.Union(a.coresOf(c.cpus))
		}
	}
	a.idle = a.idle.Intersection(a.pools.Guaranteed).Difference(all)
	a.free = a.pools.Guaranteed.Difference(all).Difference(a.idle)
	a.supply = nil
}

// idleSiblings returns the idle siblings of cpus if c has one-owner-per-core: an owner that
// takes over cpus may have them too.
func (a *assigner) idleSiblings(c *demand, cpus cpuset.Set) cpuset.Set {
	if !c.options.OneOwnerPerCore || cpus.IsEmpty() {
		return cpuset.Set{}
	}
	return a.coresOf(cpus).Intersection(a.idle)
}

// offered is how many CPUs c could get in addition to the CPUs of its pod: free capacity
// and its own idle siblings. An idle sibling has no other user, unless the shared pool
// needs it.
func (a *assigner) offered(c *demand) int {
	own := a.idleSiblings(c, c.cpus).Len()
	if a.pools.FromShared {
		own = max(min(own, a.shared()+a.idle.Len()-a.pools.floor()), 0)
	}
	return max(a.room(), 0) + own
}

// allowed applies change to siblings, and reverts it if it leaves less to the shared
// pool than its floor, and less than before. Idle siblings make that hard to predict.
func (a *assigner) allowed(siblings []demand, change func()) bool {
	if !a.pools.FromShared || !a.alone {
		change()
		return true
	}
	before, free, idle := slices.Clone(siblings), a.free, a.idle
	shared, all := a.shared(), a.shared()+a.idle.Len()
	change()
	floor := a.pools.floor()
	if a.shared() >= min(floor, shared) && a.shared()+a.idle.Len() >= min(floor, all) {
		return true
	}
	copy(siblings, before)
	a.free, a.idle, a.supply = free, idle, nil
	return false
}

// oneOfEach returns one thread of each core of cpus.
func (a *assigner) oneOfEach(cpus cpuset.Set) cpuset.Set {
	var ones cpuset.Set
	for left := cpus; !left.IsEmpty(); {
		first := left.Take(1)
		ones, left = ones.Union(first), left.Difference(first).Difference(a.coresOf(first))
	}
	return ones
}

// spread takes n CPUs in n cores without an owner, for n owners with
// one-owner-per-core.
func (a *assigner) spread(r allocate.Request) (cpuset.Set, *allocate.Refusal) {
	untouched := a.oneOfEach(a.free)
	for cpu := range untouched.All() {
		if !a.machine.Topology().ThreadSiblings(cpu).IsSubsetOf(a.free) {
			untouched = untouched.Difference(cpuset.Of(cpu))
		}
	}
	r.Options.OneOwnerPerCore, r.Options.DistributeCPUsAcrossCores = false, false
	got, refusal := take(a.from(untouched), r)
	if refusal == nil {
		a.supply = nil
	}
	return got, refusal
}

// fillFloor adds idle siblings to a shared pool below its floor. A pool is below its floor
// after a change of the option or the floor, or if CPUs go offline. It returns the
// free CPUs, the idle siblings, and the problems.
func (a *assigner) fillFloor() (free, idle cpuset.Set, problems []Problem) {
	missing := a.pools.floor() - a.shared()
	if !a.pools.FromShared || missing <= 0 {
		return a.free, a.idle, nil
	}
	lent := a.idle.Take(min(missing, a.idle.Len()))
	if !lent.IsEmpty() {
		problems = append(problems, Problem{Reason: Reason{CodeIdleShared, "CPUs " + lent.String() +
			" are idle siblings of owners (one-owner-per-core), but the shared pool needs them for its floor (guaranteed.floor) until owners end"}})
	}
	if missing -= lent.Len(); missing > 0 {
		problems = append(problems, Problem{Reason: Reason{CodeBelowFloor, fmt.Sprintf(
			"the shared pool has %s and should have %d (guaranteed.floor), but owners keep their CPUs; it gets more when owners end",
			count(a.pools.floor()-missing, "CPU"), a.pools.floor())}})
	}
	return a.free.Union(lent), a.idle.Difference(lent), problems
}

// mark marks owners that share cores despite one-owner-per-core, and reserves that
// are too small.
func (a *assigner) mark() {
	for i := range a.demands {
		if c := &a.demands[i]; c.isReserve() {
			c.missing = max(min(a.due(c, a.siblings(i)), c.least)-c.cpus.Len(), 0)
		}
	}
	if !a.alone {
		return
	}
	all := held(a.demands)
	for i := range a.demands {
		c := &a.demands[i]
		others := all.Difference(c.cpus)
		c.crowded = c.options.OneOwnerPerCore && a.coresOf(c.cpus).Overlaps(others)
	}
}
