package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// assigner gives CPUs of the guaranteed pool to claims.
type assigner struct {
	machine *allocate.Machine
	pools   *Pools
	pods    []Pod
	claims  []claim
	order   []int // indices of claims in the order in which they are served
	// free are the CPUs of the pool that can be given away. idle are those that
	// nobody may have, because an owner has the rest of their core to itself.
	free, idle cpuset.Set
	away       cpuset.Set // CPUs of pools.Away that no owner has had
	own        int        // how many CPUs only the shared pool may have; below 0 when the pools are apart
	alone      bool       // some claim has a core to itself
	// supply is made when somebody needs new CPUs. It counts free and is kept in
	// step with it; nil when it is not.
	supply *allocate.Supply
	spare  *allocate.Supply // for what does not come from there; see from
}

// assign settles what each claim gets, and returns what is left of the pool, free
// and idle, and the problems of the pool as a whole. First all keep what they have,
// then those that have too much give back, then those that have too little get
// more, units first and then the oldest container: nobody who has CPUs loses them
// to somebody who has not.
func assign(m *allocate.Machine, p *Pools, pods []Pod, claims []claim) (free, idle cpuset.Set, problems []Problem) {
	a := assigner{
		machine: m, pools: p, pods: pods, claims: claims, order: byAge(claims),
		free: p.Guaranteed, away: p.Away, own: p.Shared.Len() - p.Guaranteed.Len(),
	}
	a.keepAll()
	for _, i := range a.order {
		if c := &claims[i]; c.live && c.cpus.Len() > c.want {
			a.give(c, a.best(c, c.want))
		}
	}
	a.leaveOne()
	// A pod that has begun goes on before what is reserved for it, and is not
	// needed by it any more, goes to others.
	for _, i := range a.order {
		a.grow(i, true)
	}
	for _, i := range a.order {
		a.release(i)
	}
	a.growAll()
	a.forgo()
	a.mark()
	return a.lend()
}

// growAll lets everybody grow until nobody can: what is refused in the end is
// refused with what is free in the end.
func (a *assigner) growAll() {
	for again := true; again; {
		grown, unmet := false, false
		for _, i := range a.order {
			if a.grow(i, false) || a.reserve(i) {
				grown = true
			}
			unmet = unmet || a.claims[i].lacks() || a.claims[i].isReserve() && a.claims[i].cpus.Len() < a.due(&a.claims[i], a.siblings(i))
		}
		again = grown && unmet
	}
}

// keepAll lets all keep what they have. Where records contradict each other, a
// container that is there goes before a unit, which may not run.
func (a *assigner) keepAll() {
	for _, units := range []bool{false, true} {
		for _, i := range a.order {
			if c := &a.claims[i]; c.live && c.isUnit() == units {
				a.keep(c)
			}
		}
	}
	for _, i := range a.order {
		if !a.claims[i].live {
			a.keep(&a.claims[i])
		}
	}
	if a.alone {
		a.recount()
	}
}

// keep leaves a claim what is still in the pool and nobody before it has. What has
// gone offline is away, and what was away and is back is its own again.
func (a *assigner) keep(c *claim) {
	if had := c.cpus.Union(c.away); !had.IsSubsetOf(a.pools.Guaranteed) || !c.away.IsEmpty() {
		c.cpus, c.away = had.Intersection(a.pools.Guaranteed), had.Intersection(a.away)
		a.away = a.away.Difference(c.away)
	}
	if !c.cpus.IsSubsetOf(a.free) {
		c.cpus = c.cpus.Intersection(a.free)
		c.contested = !c.isReserve() // containers that have started take from it
	}
	a.free = a.free.Difference(c.cpus)
	c.guess()
	a.alone = a.alone || c.options.OneOwnerPerCore
}

// leaveOne takes a CPU from who comes last when the shared pool would have none:
// it has shrunk, and all that is left of it belongs to owners.
func (a *assigner) leaveOne() {
	if !a.pools.FromShared {
		return
	}
	for _, i := range slices.Backward(a.order) {
		if !a.pools.Shared.IsSubsetOf(held(a.claims)) {
			return
		}
		if c := &a.claims[i]; !c.cpus.IsEmpty() {
			a.give(c, a.best(c, c.cpus.Len()-1))
			c.guess()
		}
	}
}

// room is how many CPUs can still be given away. It is below 0 when the shared
// pool has less than its floor.
func (a *assigner) room() int {
	if !a.pools.FromShared {
		return a.free.Len()
	}
	return min(a.shared()-a.pools.floor(), a.free.Len())
}

// shared is how many CPUs of its own the shared pool has, out of which owners
// carve theirs.
func (a *assigner) shared() int {
	return a.own + a.free.Len()
}

// best returns those n CPUs of a claim that are packed best.
func (a *assigner) best(c *claim, n int) cpuset.Set {
	if n == 0 {
		return cpuset.Set{}
	}
	if c.isReserve() && c.options.OneOwnerPerCore {
		if ones := a.oneOfEach(c.cpus); ones.Len() >= n {
			keep, _ := take(a.from(ones), allocate.Request{CPUs: n})
			return keep // for as many owners
		}
	}
	if fixed := c.set.fixed().Intersection(c.cpus); !fixed.IsEmpty() && fixed.Len() <= n {
		rest, _ := take(a.from(c.cpus.Difference(fixed)), allocate.Request{CPUs: n - fixed.Len(), Near: fixed})
		return fixed.Union(rest)
	}
	from := a.from(c.cpus)
	keep, refusal := take(from, allocate.Request{CPUs: n, Nodes: c.nodes, Options: *c.options})
	if refusal != nil {
		keep, _ = take(from, allocate.Request{CPUs: n})
	}
	return keep
}

// give leaves a claim with keep.
func (a *assigner) give(c *claim, keep cpuset.Set) {
	a.free = a.free.Union(c.cpus.Difference(keep))
	a.supply = nil
	c.cpus = keep
	if a.alone {
		a.recount()
	}
}

// have adds CPUs to a claim that are taken out of the supply already, with what is
// idle beside them.
func (a *assigner) have(c *claim, cpus cpuset.Set) {
	c.cpus = c.cpus.Union(cpus)
	a.free = a.free.Difference(cpus)
	if c.options.OneOwnerPerCore {
		beside := a.coresOf(cpus).Intersection(a.free)
		a.idle = a.idle.Difference(cpus).Union(beside)
		a.free = a.free.Difference(beside)
	}
}

// from returns a supply of cpus, which serves until the next call.
func (a *assigner) from(cpus cpuset.Set) *allocate.Supply {
	if a.spare == nil {
		a.spare = a.machine.Supply(cpus)
	} else {
		a.spare.Reset(cpus)
	}
	return a.spare
}

// siblings are the claims of the same pod as claim i, which is one of them. Units
// have none.
func (a *assigner) siblings(i int) []claim {
	first, end := i, i+1
	if a.claims[i].isUnit() {
		return a.claims[first:end]
	}
	for first > 0 && a.claims[first-1].pod == a.claims[i].pod {
		first--
	}
	for end < len(a.claims) && a.claims[end].pod == a.claims[i].pod {
		end++
	}
	return a.claims[first:end]
}
