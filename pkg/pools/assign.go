package pools

import (
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// assigner gives CPUs of the guaranteed pool to claims.
type assigner struct {
	machine *allocate.Machine
	pods    []Pod
	claims  []claim
	// free are the CPUs of the pool that no claim has.
	free cpuset.Set

	// supply is made when somebody needs new CPUs. It counts free and is kept in
	// step with it.
	supply *allocate.Supply
}

// assign settles what each claim gets, and returns what is left of the pool.
// First all keep what they have, then those that have too much give back, then
// those that have too little get more, the oldest container first: nobody who
// has CPUs loses them to somebody who has not.
func assign(m *allocate.Machine, pool cpuset.Set, pods []Pod, claims []claim) cpuset.Set {
	a := assigner{machine: m, pods: pods, claims: claims, free: pool}
	order := byAge(claims)
	for _, i := range order {
		a.keep(i, pool)
	}
	for _, i := range order {
		a.shrink(&claims[i])
	}
	for _, i := range order {
		a.grow(i)
	}
	return a.free
}

// keep leaves claim i what is still in the pool and nobody older has.
func (a *assigner) keep(i int, pool cpuset.Set) {
	c := &a.claims[i]
	if !c.cpus.IsSubsetOf(pool) {
		c.cpus = c.cpus.Intersection(pool)
	}
	if !c.cpus.IsSubsetOf(a.free) {
		c.cpus = c.cpus.Intersection(a.free)
		c.contested = true
	}
	a.free = a.free.Difference(c.cpus)
	if c.atLeast {
		c.want = max(c.want, c.cpus.Len())
	}
}

// shrink takes from a container what it does not ask for any more, so that what
// it keeps is packed best.
func (a *assigner) shrink(c *claim) {
	if !c.live || c.cpus.Len() <= c.want {
		return
	}
	keep := a.pick(a.machine.Supply(c.cpus), c.want, cpuset.Set{})
	a.free = a.free.Union(c.cpus.Difference(keep))
	c.cpus = keep
}

// grow gives claim i the CPUs that it lacks. A container that has none yet gets
// all that it asks for or nothing; one that has some gets as many as there are.
func (a *assigner) grow(i int) {
	c := &a.claims[i]
	lack := c.want - c.cpus.Len()
	if !c.live || lack <= 0 {
		return
	}
	siblings := a.siblings(i)
	left := leftBy(siblings)
	reuse := min(left.Len(), max(lack-a.free.Len(), excess(&a.pods[c.pod], siblings, lack), 0), lack)
	if got := reuse + a.free.Len(); got < lack {
		if c.cpus.IsEmpty() {
			return
		}
		lack = got
	}
	if reuse > 0 {
		again := a.pick(a.machine.Supply(left), reuse, c.cpus)
		c.cpus = c.cpus.Union(again)
		bereave(siblings, again)
	}
	if fresh := lack - reuse; fresh > 0 {
		if a.supply == nil {
			a.supply = a.machine.Supply(a.free)
		}
		taken := a.pick(a.supply, fresh, c.cpus)
		c.cpus = c.cpus.Union(taken)
		a.free = a.free.Difference(taken)
	}
}

// siblings are the claims of the same pod as claim i, which is one of them.
func (a *assigner) siblings(i int) []claim {
	first, end := i, i+1
	for first > 0 && a.claims[first-1].pod == a.claims[i].pod {
		first--
	}
	for end < len(a.claims) && a.claims[end].pod == a.claims[i].pod {
		end++
	}
	return a.claims[first:end]
}

// leftBy are the CPUs of the claims that are not live.
func leftBy(claims []claim) cpuset.Set {
	var left cpuset.Set
	for i := range claims {
		if !claims[i].live {
			left = left.Union(claims[i].cpus)
		}
	}
	return left
}

// bereave takes cpus from the claims that are not live.
func bereave(claims []claim, cpus cpuset.Set) {
	for i := range claims {
		if !claims[i].live {
			claims[i].cpus = claims[i].cpus.Difference(cpus)
		}
	}
}

// excess is by how many CPUs the claims of a pod would have more than the pod's
// total if they got lack more; 0 when the total is not known. What is above the
// total was of ordinary init containers, whose requests do not add to those of
// the containers that run after them (KEP-753).
func excess(p *Pod, claims []claim, lack int) int {
	total, known := wholeCPUs(p.Resources)
	if !known {
		return 0
	}
	for i := range claims {
		lack += claims[i].cpus.Len()
	}
	return lack - total
}

// pick takes what is known to be there.
func (a *assigner) pick(from *allocate.Supply, n int, have cpuset.Set) cpuset.Set {
	cpus, _ := from.Take(allocate.Request{CPUs: n, Have: have})
	return cpus
}
