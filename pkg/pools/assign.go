package pools

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// assigner allocates CPUs of the guaranteed pool to demands.
type assigner struct {
	machine *allocate.Machine
	pools   *Pools
	pods    []Pod
	demands []demand
	order   []int // indices of demands in the order in which they are served
	// free are the CPUs of the pool without an owner. idle are the idle siblings: no
	// owner may have them, because the rest of their core is exclusive.
	free, idle cpuset.Set
	away       cpuset.Set // CPUs of pools.Away that no owner has had
	own        int        // number of CPUs that only the shared pool may have; below 0 if the pools are apart
	alone      bool       // a demand has one-owner-per-core
	// supply is made when a demand needs new CPUs. It counts free and is kept in
	// step with it; nil otherwise.
	supply *allocate.Supply
	spare  *allocate.Supply // for CPUs outside supply; see from
}

// assign decides the CPUs of each demand. It returns the free CPUs, the idle siblings, and
// the problems of the whole pool. First all demands keep their CPUs, then demands return
// CPUs above their request. Then demands get missing CPUs, units first and then the oldest
// container: no demand loses CPUs to a demand without CPUs.
func assign(m *allocate.Machine, p *Pools, pods []Pod, demands []demand) (free, idle cpuset.Set, problems []Problem) {
	a := assigner{
		machine: m, pools: p, pods: pods, demands: demands, order: byAge(demands),
		free: p.Guaranteed, away: p.Away, own: p.Shared.Len() - p.Guaranteed.Len(),
	}
	a.keepAll()
	for _, i := range a.order {
		if c := &demands[i]; c.live && c.cpus.Len() > c.want {
			a.give(c, a.best(c, c.want))
		}
	}
	a.leaveOne()
	// A pod that has begun gets CPUs first. Then unneeded CPUs of its reserve go to
	// other pods.
	for _, i := range a.order {
		a.grow(i, true)
	}
	for _, i := range a.order {
		if c := &demands[i]; c.isReserve() && !c.unread {
			if due := a.due(c, a.siblings(i)); c.cpus.Len() > due {
				a.give(c, a.best(c, due))
			}
		}
	}
	a.growAll()
	a.dropAway()
	a.mark()
	return a.fillFloor()
}

// growAll grows demands until no demand can grow, so that each refusal states the
// number of CPUs that are free in the end.
func (a *assigner) growAll() {
	for again := true; again; {
		grown, unmet := false, false
		for _, i := range a.order {
			if a.grow(i, false) || a.reserve(i) {
				grown = true
			}
			unmet = unmet || a.demands[i].lacks() || a.demands[i].isReserve() && a.demands[i].cpus.Len() < a.due(&a.demands[i], a.siblings(i))
		}
		again = grown && unmet
	}
}

// keepAll lets all demands keep their CPUs. If records contradict each other, an
// existing container takes precedence over a unit, which may not run.
func (a *assigner) keepAll() {
	for _, units := range []bool{false, true} {
		for _, i := range a.order {
			if c := &a.demands[i]; c.live && c.isUnit() == units {
				a.keep(c)
			}
		}
	}
	for _, i := range a.order {
		if !a.demands[i].live {
			a.keep(&a.demands[i])
		}
	}
	if a.alone {
		a.recount()
	}
}

// keep reduces a demand to CPUs of the pool that no earlier demand has. CPUs that have
// gone offline are away; away CPUs that are online again return to the demand.
func (a *assigner) keep(c *demand) {
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

// leaveOne takes a CPU from the last demand if the shared pool would be empty: the pool
// has shrunk, and owners have all of its CPUs.
func (a *assigner) leaveOne() {
	if !a.pools.FromShared {
		return
	}
	for _, i := range slices.Backward(a.order) {
		if !a.pools.Shared.IsSubsetOf(held(a.demands)) {
			return
		}
		if c := &a.demands[i]; !c.cpus.IsEmpty() {
			a.give(c, a.best(c, c.cpus.Len()-1))
			c.guess()
		}
	}
}

// room returns the number of CPUs that owners can still get. It is below 0 if the shared
// pool has less than its floor.
func (a *assigner) room() int {
	if !a.pools.FromShared {
		return a.free.Len()
	}
	return min(a.shared()-a.pools.floor(), a.free.Len())
}

// shared returns the current number of CPUs of the shared pool, without the CPUs of owners
// and their idle siblings.
func (a *assigner) shared() int {
	return a.own + a.free.Len()
}

// best returns the n CPUs of a demand that are packed best.
func (a *assigner) best(c *demand, n int) cpuset.Set {
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

// give leaves a demand with keep.
func (a *assigner) give(c *demand, keep cpuset.Set) {
	a.free = a.free.Union(c.cpus.Difference(keep))
	a.supply = nil
	c.cpus = keep
	if a.alone {
		a.recount()
	}
}

// have adds CPUs, already taken out of the supply, to a demand. The siblings of these CPUs
// become idle.
func (a *assigner) have(c *demand, cpus cpuset.Set) {
	c.cpus = c.cpus.Union(cpus)
	a.free = a.free.Difference(cpus)
	if c.options.OneOwnerPerCore {
		siblings := a.coresOf(cpus).Intersection(a.free)
		a.idle = a.idle.Difference(cpus).Union(siblings)
		a.free = a.free.Difference(siblings)
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

// siblings returns the demands of the same pod as demand i, including demand i. A unit has
// only itself.
func (a *assigner) siblings(i int) []demand {
	first, pod := i, a.demands[i].pod
	if pod == none {
		return a.demands[i : i+1]
	}
	for first > 0 && a.demands[first-1].pod == pod {
		first--
	}
	all, _ := cut(a.demands[first:], func(c *demand) bool { return c.pod == pod })
	return all
}

// dropAway reduces the offline CPUs of owners to the number of CPUs that they lack in the
// end. An owner with replacements does not get its offline CPUs back.
func (a *assigner) dropAway() {
	for i := range a.demands {
		c := &a.demands[i]
		if c.away.IsEmpty() {
			continue
		}
		if lack, known := a.lack(i); known && lack < c.away.Len() {
			c.away = c.away.Take(max(lack, 0))
		}
	}
}

// lack returns how many CPUs demand i lacks. The number is unknown for a container that does
// not exist at the moment, or that gets no CPUs yet.
func (a *assigner) lack(i int) (n int, known bool) {
	c := &a.demands[i]
	switch {
	case c.unread, c.waiting && c.cpus.IsEmpty():
		return 0, false
	case c.isReserve():
		return a.owed(c, a.siblings(i)) - c.cpus.Len(), true
	case !c.live:
		return 0, false
	}
	return c.want - c.cpus.Len(), true
}

// anomalies returns how the CPUs of an owner differ from exclusive CPUs that are online.
func (c *demand) anomalies() (all []Reason) {
	if c.contested {
		all = append(all, overlap())
	}
	if !c.away.IsEmpty() {
		all = append(all, Reason{CodeOffline, fmt.Sprintf("%s of its own %s offline, and kept for it until it gets others instead", named(c.away), isOrAre(c.away))})
	}
	if c.crowded {
		all = append(all, Reason{CodeCrowded, "another owner shares its cores, against one-owner-per-core: " +
			"both had their CPUs before and keep them; ends with one of them"})
	}
	return all
}

func named(cpus cpuset.Set) string {
	if cpus.Len() == 1 {
		return "CPU " + cpus.String()
	}
	return "CPUs " + cpus.String()
}
