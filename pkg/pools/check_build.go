package pools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// CheckBuild returns what is wrong with a plan that Build made of in: what [Check]
// finds, and what depends on what was before. The shared pool keeps its floor, and
// owners that should have their cores to themselves have, as far as nobody would
// have to lose CPUs for it that he had (in.Previous).
func CheckBuild(p Plan, in Input) []error {
	errs := Check(p, in.Pools)
	in.Pools = in.Pools.beside(p.Theirs, p.TheirsAlone)
	c := stepChecker{in: &in, plan: &p, top: in.Machine.Topology().ThreadSiblings, errs: errs}
	c.options = make(map[Key]*allocate.Options, len(p.Assignments))
	for _, o := range Owners(in, p) {
		c.options[o.Key] = &o.Options
	}
	c.had = make(map[Key]cpuset.Set, len(in.Previous))
	for _, a := range in.Previous {
		c.had[a.Key] = c.had[a.Key].Union(a.CPUs, a.Away)
	}
	if !p.Resting.IsSubsetOf(in.Resting) {
		c.report("CPUs %s rest, and only %s may", p.Resting, in.Resting)
	}
	c.floor()
	c.cores()
	c.totals()
	return c.errs
}

type stepChecker struct {
	in   *Input
	plan *Plan
	// top returns the threads of a CPU's core.
	top     func(cpu int) cpuset.Set
	options map[Key]*allocate.Options
	had     map[Key]cpuset.Set
	errs    []error
}

func (c *stepChecker) report(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// floor checks that below it nothing is idle, and that nobody got anything that
// brought the shared pool there.
func (c *stepChecker) floor() {
	floor := min(c.in.Pools.floor(), c.in.Pools.Shared.Len())
	if !c.in.Pools.FromShared || c.plan.Shared.Len() >= floor {
		return
	}
	if !c.plan.Resting.IsEmpty() {
		c.report("shared CPUs are %s, fewer than %d, and %s rest", c.plan.Shared, floor, c.plan.Resting)
	}
	if !c.plan.Idle.IsEmpty() {
		c.report("shared CPUs are %s, fewer than %d, and %s are idle", c.plan.Shared, floor, c.plan.Idle)
	}
	var had, has cpuset.Set
	for _, a := range c.in.Previous {
		had = had.Union(a.CPUs, a.Away)
	}
	for _, a := range c.plan.Assignments {
		has = has.Union(a.CPUs)
	}
	if had = had.Intersection(c.in.Pools.Guaranteed); has.Len() > had.Len() {
		c.report("shared CPUs are %s, fewer than %d, and owners have %s; they had %s", c.plan.Shared, floor, has, had)
	}
}

// cores checks who has a part of the cores of owners that should have them to
// themselves. Owners that had their parts before may keep them.
func (c *stepChecker) cores() {
	owner, podLevel := make(map[int]Key), make(map[string]bool)
	for i := range c.plan.Pods {
		p := &c.plan.Pods[i]
		podLevel[p.UID] = slices.ContainsFunc(p.Containers, func(at Placement) bool { return at.InPodPool() })
	}
	for _, a := range c.plan.Assignments {
		for cpu := range a.CPUs.All() {
			owner[cpu] = a.Key
		}
	}
	short := c.in.Pools.FromShared && c.plan.Shared.Len() <= c.in.Pools.floor()
	var idle cpuset.Set
	for cpu, key := range owner {
		if o := c.options[key]; o == nil || !o.OneOwnerPerCore {
			continue
		}
		for sibling := range c.top(cpu).All() {
			other, owned := owner[sibling]
			switch {
			case owned && other != key:
				if podLevel[key.PodUID] && other.PodUID == key.PodUID {
					continue // one owner, in parts
				}
				if !c.had[key].Contains(cpu) || !c.had[other].Contains(sibling) {
					c.report("CPU %d of %v and CPU %d of %v are in one core", cpu, key, sibling, other)
				}
			case owned || !c.in.Pools.Guaranteed.Contains(sibling):
			case c.plan.Idle.Contains(sibling):
				idle = idle.Union(cpuset.Of(sibling))
			case !short:
				c.report("CPU %d, beside CPU %d of %v, is not idle; shared CPUs are %s", sibling, cpu, key, c.plan.Shared)
			}
		}
	}
	if !idle.Equal(c.plan.Idle) {
		c.report("idle CPUs are %s; beside owners are %s", c.plan.Idle, idle)
	}
}

// totals checks that the live containers of a pod together have no more exclusive CPUs than
// the pod's total. Two facts show that the total is outdated: one container alone asks for more
// (see isPodLevel), or the earlier owners together do (see isApart and carveOuts).
func (c *stepChecker) totals() {
	pods := present(c.in.Pods)
	for i := range c.plan.Pods {
		p := &c.plan.Pods[i]
		at, found := slices.BinarySearchFunc(pods, p.UID, func(o Pod, uid string) int { return cmp.Compare(o.UID, uid) })
		unknown := func(ctr Container) bool { return ctr.Kind == App && ctr.State != Exited && ctr.Resources.Shares == 0 }
		if !found || pods[at].Unread || slices.ContainsFunc(pods[at].Containers, unknown) {
			continue // an unknown request can be all of the total
		}
		total, known := pods[at].Resources.WholeCPUs()
		if !known {
			continue
		}
		var has cpuset.Set
		most := total
		owned := 0
		for j := range pods[at].Containers {
			ctr, to := &pods[at].Containers[j], &p.Containers[j]
			if ctr.State == Exited {
				continue
			}
			n, _ := ctr.Resources.WholeCPUs()
			most = max(most, n, int(min(ctr.Resources.Shares, sharesCap)/sharesPerCPU))
			if to.Pool == Guaranteed {
				has = has.Union(to.CPUs)
			}
			if to.Exclusive && !c.had[Key{p.UID, ctr.Name}].IsEmpty() {
				owned += n
			}
		}
		most = max(most, owned)
		if has.Len() > total && most == total {
			c.report("the containers of pod %s have CPUs %s; its total is %d", p.UID, has, total)
		}
	}
}
