// Package invariants checks plans of package pools against the invariants of ARCHITECTURE.md.
// Only tests import it.
package invariants

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Check returns an error for each violation in a plan. Exclusive CPUs have one owner, each container
// has CPUs, and the parts of the plan agree. A plan of [pools.Build] has no errors.
func Check(p pools.Plan, on pools.Pools) []error {
	c := checker{pools: without(on, &p), claims: p.Claims, held: make(map[pools.Key]cpuset.Set, len(p.Assignments)), pool: make(map[string]cpuset.Set)}
	c.assignments(p)
	c.shared(p)
	c.units(p.Units)
	for i := range p.Pods {
		c.pod(&p.Pods[i])
	}
	c.errs = append(c.errs, CheckOccupants(slices.Concat(c.running, c.mixes))...)
	if !slices.IsSortedFunc(p.Pods, func(a, b pools.PodPlan) int { return cmp.Compare(a.UID, b.UID) }) {
		c.report("pods are not sorted")
	}
	if !slices.IsSortedFunc(p.Problems, compareProblems) {
		c.report("problems are not sorted")
	}
	return c.errs
}

// without returns the pools without the CPUs that the containers of other managers have.
func without(on pools.Pools, p *pools.Plan) pools.Pools {
	on.Guaranteed, on.Shared = on.Guaranteed.Difference(p.Theirs), on.Shared.Difference(p.TheirsAlone)
	on.Mixed.CPUs = on.Mixed.CPUs.Difference(p.TheirsAlone)
	on.Partitions = slices.Clone(on.Partitions)
	for i := range on.Partitions {
		on.Partitions[i].CPUs = on.Partitions[i].CPUs.Difference(p.TheirsAlone)
	}
	on.Claims.CPUs = on.Claims.CPUs.Difference(p.Theirs)
	return withoutClaims(on, p)
}

// withoutClaims returns the pools without the CPUs of claims that are not in the list for claims. A pool
// that would be empty keeps its CPUs.
func withoutClaims(on pools.Pools, p *pools.Plan) pools.Pools {
	outside := claimed(p.Claims).Difference(on.Claims.CPUs)
	lost := outside
	for _, pool := range append([]pools.Partition{{CPUs: on.Shared}}, on.Partitions...) {
		if pool.CPUs.IsSubsetOf(outside) {
			lost = lost.Difference(pool.CPUs)
		}
	}
	on.Guaranteed, on.Shared, on.Mixed.CPUs = on.Guaranteed.Difference(outside), on.Shared.Difference(lost), on.Mixed.CPUs.Difference(lost)
	for i := range on.Partitions {
		on.Partitions[i].CPUs = on.Partitions[i].CPUs.Difference(lost)
	}
	return on
}

// claimed returns the CPUs of claims.
func claimed(claims []pools.ClaimPlan) cpuset.Set {
	var all cpuset.Set
	for i := range claims {
		all = all.Union(claims[i].CPUs)
	}
	return all
}

func compareProblems(a, b pools.Problem) int {
	return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Container, b.Container),
		cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Text, b.Text))
}

type checker struct {
	pools      pools.Pools
	claims     []pools.ClaimPlan
	held       map[pools.Key]cpuset.Set
	pool       map[string]cpuset.Set // of pods with pod-level resources, by UID
	taken      cpuset.Set            // by assignments, or idle siblings
	sharedPool cpuset.Set
	running    []Occupant
	mixes      []Occupant // CPUs that owners share
	errs       []error
}

func (c *checker) report(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) assignments(p pools.Plan) {
	free, away := c.pools.Guaranteed, c.pools.Away
	var ofClaims cpuset.Set
	for i, a := range p.Assignments {
		name := a.PodUID + a.Claim + "/" + a.Container
		if i > 0 && p.Assignments[i-1].Compare(a.Key) >= 0 {
			c.report("assignment of %s is out of order", name)
		}
		if a.Claim != "" {
			if all := a.CPUs.Union(a.Away); all.IsEmpty() || all.Overlaps(ofClaims) {
				c.report("claim %s has %s, and other claims have %s", name, all, ofClaims)
			}
			ofClaims = ofClaims.Union(a.CPUs, a.Away)
			continue
		}
		if a.CPUs.IsEmpty() && a.Away.IsEmpty() && len(a.Sharers) == 0 || !a.CPUs.IsSubsetOf(free) {
			c.report("assignment of %s (%s) is empty or not within what others leave of the guaranteed pool (%s)", name, a.CPUs, free)
		}
		if !a.Away.IsSubsetOf(away) {
			c.report("assignment of %s: CPUs %s that are away are not within what others leave of those that are offline (%s)", name, a.Away, away)
		}
		free, away = free.Difference(a.CPUs), away.Difference(a.Away)
		c.held[a.Key] = a.CPUs
		if len(a.Sharers) > 0 && (a.Container != "" || a.PodUID == "" || !slices.IsSorted(a.Sharers)) {
			c.report("assignment of %s has the sharers %q", name, a.Sharers)
		}
	}
	if !p.Idle.IsSubsetOf(free) {
		c.report("idle CPUs %s are not within what the assignments leave (%s)", p.Idle, free)
	}
	if free = free.Difference(p.Idle); !p.Free.Equal(free) {
		c.report("free CPUs are %s; the assignments and idle CPUs leave %s", p.Free, free)
	}
	if !p.Resting.IsSubsetOf(free) || !p.Resting.IsEmpty() && (!c.pools.FromShared || len(c.held) == 0) {
		c.report("CPUs %s rest, and free are %s; from: shared is %t, and there are %d owners", p.Resting, free, c.pools.FromShared, len(c.held))
	}
	c.taken = c.pools.Guaranteed.Difference(free).Union(p.Resting)
}

// shared checks what the shared pool has.
func (c *checker) shared(p pools.Plan) {
	c.sharedPool = c.pools.Shared.Difference(c.taken)
	if c.pools.Claims.Lend {
		c.sharedPool = c.sharedPool.Union(c.pools.Claims.CPUs.Difference(claimed(p.Claims)))
	}
	if !p.Shared.Equal(c.sharedPool) {
		c.report("shared CPUs are %s; the assignments leave %s", p.Shared, c.sharedPool)
	}
	if p.Shared.IsEmpty() && !c.pools.Shared.IsEmpty() {
		c.report("there are no shared CPUs")
	}
}

func (c *checker) units(units []pools.UnitPlan) {
	sameName := func(a pools.UnitPlan, b pools.UnitSpec) bool { return a.Name == b.Name }
	if !slices.EqualFunc(units, c.pools.Units, sameName) {
		c.report("units differ from the configuration")
	}
	for _, u := range units {
		name := "unit " + u.Name
		c.placement(name, pools.Key{Container: u.Name}, &pools.Placement{
			Pool: u.Pool, Type: u.Type, CPUs: u.CPUs, Mems: u.Mems, Exclusive: u.Exclusive, Refused: u.Refused, Reason: u.Reason,
		})
		c.running = append(c.running, Occupant{Name: name, CPUs: u.CPUs, Exclusive: u.Exclusive})
	}
}

func (c *checker) pod(p *pools.PodPlan) {
	unlimited := false
	c.podPool(p)
	for i := range p.Containers {
		at := &p.Containers[i]
		name := fmt.Sprintf("container %s (%s) of pod %s", at.Name, at.ID, p.UID)
		c.placement(name, pools.Key{PodUID: p.UID, Container: at.Name}, at)
		if at.State == pools.Exited || at.Pool == pools.Other {
			continue // of a foreign container nothing is decided here
		}
		unlimited = unlimited || at.Unlimited
		occupant := Occupant{Name: name, CPUs: at.CPUs, Exclusive: at.Exclusive}
		if at.InPodPool() {
			occupant.Exclusive, occupant.Group = true, p.UID
		}
		if at.Exclusive {
			// Two instances of one container are one user of its CPUs.
			occupant.Name = "container " + at.Name + " of pod " + p.UID
			if slices.ContainsFunc(c.running, func(o Occupant) bool { return o.Name == occupant.Name && o.CPUs.Equal(occupant.CPUs) }) {
				continue
			}
		}
		c.running = append(c.running, occupant)
	}
	if p.Unlimited != unlimited {
		c.report("pod %s: unlimited is %t, want %t", p.UID, p.Unlimited, unlimited)
	}
	c.quota("pod "+p.UID, p.Unlimited, p.Quota, p.Period)
	if p.Shares != 0 && (p.Shares < workload.MinShares || p.Shares > workload.MaxShares) {
		c.report("pod %s: %d shares", p.UID, p.Shares)
	}
	if (p.Shares != 0 || p.Unlimited) != (p.Reason != pools.Reason{}) {
		c.report("pod %s: %d shares, unlimited %t, reason %q", p.UID, p.Shares, p.Unlimited, p.Reason.Text)
	}
}

// podPool checks the containers that share CPUs of their pod. They run on the
// CPUs of the pod without the CPUs of its live owners.
func (c *checker) podPool(p *pools.PodPlan) {
	var pool, owned cpuset.Set
	for i := range p.Containers {
		switch at := &p.Containers[i]; {
		case at.State == pools.Exited:
		case at.Exclusive:
			owned = owned.Union(at.CPUs)
		case at.InPodPool() && len(at.Claims) == 0:
			pool = pool.Union(at.CPUs)
		}
	}
	if pool.IsEmpty() {
		return
	}
	var has cpuset.Set
	for key, cpus := range c.held {
		if key.PodUID == p.UID {
			has = has.Union(cpus)
		}
	}
	if want := has.Difference(owned); !pool.Equal(want) {
		c.report("the pool of pod %s is %s; the pod's CPUs without owners' CPUs are %s", p.UID, pool, want)
	}
	c.pool[p.UID] = pool
}

func (c *checker) placement(name string, key pools.Key, at *pools.Placement) {
	var pool cpuset.Set
	switch at.Pool {
	case pools.Management:
		if i := slices.IndexFunc(c.pools.Partitions, func(p pools.Partition) bool { return p.Type == at.Type }); i >= 0 {
			pool = c.pools.Partitions[i].CPUs.Difference(c.taken)
		}
	case pools.Shared:
		pool = c.sharedPool
	case pools.Guaranteed:
		if pool = c.held[key]; len(at.Claims) > 0 {
			pool = claimed(slices.DeleteFunc(slices.Clone(c.claims), func(o pools.ClaimPlan) bool {
				return o.PodUID != key.PodUID || !slices.Contains(at.Claims, o.UID) || !slices.Contains(o.Containers, key.Container)
			}))
		} else if at.InPodPool() {
			pool = c.pool[key.PodUID]
		}
	case pools.Other:
		pool = at.CPUs
	}
	if at.CPUs.IsEmpty() && at.Pool != pools.Other || !at.CPUs.Equal(pool) {
		c.report("%s is on %s; its part of the %s pool is %s", name, at.CPUs, at.Pool, pool)
	}
	c.mixed(name, at)
	if at.Exclusive && at.Pool != pools.Guaranteed || at.InPodPool() && at.Reason.Code != pools.CodePodPool && at.Reason.Code != pools.CodeUnread && len(at.Claims) == 0 || (at.Type != "") != (at.Pool == pools.Management) {
		c.report("%s: pool %s, type %q, exclusive %t", name, at.Pool, at.Type, at.Exclusive)
	}
	if at.Shares != 0 && (at.Pool != pools.Management || at.Shares < workload.MinShares || at.Shares > workload.MaxShares) {
		c.report("%s: pool %s, %d shares", name, at.Pool, at.Shares)
	}
	if at.Limit != 0 && (at.Pool != pools.Management || at.Limit < 0 || at.Limit > workload.MaxMilliCPU) {
		c.report("%s: pool %s, limit %d", name, at.Pool, at.Limit)
	}
	c.quota(name, at.Unlimited, at.Quota, at.Period)
	if !at.Mems.IsEmpty() && (at.Pool != pools.Guaranteed || !c.pools.BindMemory) {
		c.report("%s: memory is bound to %s", name, at.Mems)
	}
	if at.Unlimited && at.Pool != pools.Guaranteed {
		c.report("%s has no quota, and no exclusive CPUs", name)
	}
	if at.Unread && (at.Pool != pools.Shared || at.Refused != nil) {
		c.report("%s: pool %s, refusal %v, of an unread pod", name, at.Pool, at.Refused)
	}
	if (at.Refused != nil) != (at.Reason.Code == pools.CodeRefused) || at.Refused != nil && at.Pool != pools.Shared {
		c.report("%s: pool %s, reason %s, refusal %v", name, at.Pool, at.Reason.Code, at.Refused)
	}
	if at.Short != nil && at.Reason.Code != pools.CodeShort {
		c.report("%s: reason %s, shortage %v", name, at.Reason.Code, at.Short)
	}
	if at.Reason.Code == "" || at.Reason.Text == "" {
		c.report("%s has no reason", name)
	}
}

// mixed checks the shared CPUs of an exclusive container: all mixed CPUs, and no exclusive ones.
func (c *checker) mixed(name string, at *pools.Placement) {
	if at.Mixed.IsEmpty() {
		return
	}
	want := c.pools.Mixed.CPUs.Difference(c.taken)
	if c.pools.Mixed.Shared {
		want = c.pools.Shared.Difference(c.taken)
	}
	if !at.Exclusive || !at.Mixed.Equal(want) {
		c.report("%s: exclusive %t, and has the mixed CPUs %s; the configuration has %s", name, at.Exclusive, at.Mixed, want)
	}
	c.mixes = append(c.mixes, Occupant{Name: name + ", mixed", CPUs: at.Mixed})
}

// quota checks the quota that a container or pod gets back.
func (c *checker) quota(name string, unlimited bool, quota, period int64) {
	if quota < 0 || (quota > 0) != (period > 0) || quota > 0 && unlimited {
		c.report("%s: unlimited %t, quota %d, period %d", name, unlimited, quota, period)
	}
}
