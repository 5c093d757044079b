package invariants

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Shares of one CPU, and the most that the kubelet writes (pkg/kubelet/cm, MilliCPUToShares).
const (
	sharesPerCPU = 1024
	sharesCap    = 262144
)

// CheckBuild returns the errors of [Check] for a plan that [pools.Build] made of in, and an error
// for each change that in.Previous forbids. The shared pool keeps its floor. Owners of whole
// cores have them, unless another owner would lose CPUs.
func CheckBuild(p pools.Plan, in pools.Input) []error {
	errs := Check(p, in.Pools)
	in.Pools = without(in.Pools, &p)
	c := stepChecker{in: &in, plan: &p, top: in.Machine.Topology().ThreadSiblings, errs: errs}
	c.options = make(map[pools.Key]*allocate.Options, len(p.Assignments))
	for _, o := range pools.Owners(in, p) {
		c.options[o.Key] = &o.Options
	}
	c.had = make(map[pools.Key]cpuset.Set, len(in.Previous))
	c.parts = make(map[pools.Key]bool)
	for _, a := range in.Previous {
		c.had[a.Key] = c.had[a.Key].Union(a.CPUs, a.Away)
		c.parts[a.Key] = c.parts[a.Key] || a.Part || slices.Contains(ownersOf(in.Previous, a.PodUID), a.Container)
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
	in   *pools.Input
	plan *pools.Plan
	// top returns the threads of a CPU's core.
	top     func(cpu int) cpuset.Set
	options map[pools.Key]*allocate.Options
	had     map[pools.Key]cpuset.Set
	parts   map[pools.Key]bool // see [pools.Assignment]
	errs    []error
}

func (c *stepChecker) report(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

// floor checks a shared pool below its floor: no CPUs are idle, and owners have no more CPUs than
// before.
func (c *stepChecker) floor() {
	floor := min(max(c.in.Pools.Floor, 1), c.in.Pools.Shared.Len())
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
		if a.Claim == "" {
			has = has.Union(a.CPUs)
		}
	}
	if had = had.Intersection(c.in.Pools.Guaranteed); has.Len() > had.Len() {
		c.report("shared CPUs are %s, fewer than %d, and owners have %s; they had %s", c.plan.Shared, floor, has, had)
	}
}

// cores checks that owners of whole cores share no core. An owner may keep CPUs that it had before.
func (c *stepChecker) cores() {
	owner, podLevel := make(map[int]pools.Key), make(map[string]bool)
	for i := range c.plan.Pods {
		p := &c.plan.Pods[i]
		podLevel[p.UID] = slices.ContainsFunc(p.Containers, func(at pools.Placement) bool { return at.InPodPool() && len(at.Claims) == 0 })
	}
	for _, a := range c.plan.Assignments {
		for cpu := range a.CPUs.All() {
			owner[cpu] = a.Key
		}
	}
	short := c.in.Pools.FromShared && c.plan.Shared.Len() <= max(c.in.Pools.Floor, 1)
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
				c.report("CPU %d, sibling of CPU %d of %v, is not idle; shared CPUs are %s", sibling, cpu, key, c.plan.Shared)
			}
		}
	}
	if !idle.Equal(c.plan.Idle) {
		c.report("idle CPUs are %s; idle siblings are %s", c.plan.Idle, idle)
	}
}

// totals checks that the live containers of a pod together have no more exclusive CPUs than
// the pod's total. Three facts show that the total is outdated. One container alone asks for more
// (see isPodLevel). Earlier owners together do, and each of them has requested less before (see isApart
// and carveOuts). Or their separate CPUs are more than the total.
func (c *stepChecker) totals() {
	pods := present(c.in.Pods)
	for i := range c.plan.Pods {
		p := &c.plan.Pods[i]
		of, found := pods[p.UID]
		unknown := func(ctr pools.Container) bool {
			return ctr.Kind == pools.App && ctr.State != pools.Exited && ctr.Resources.Shares == 0
		}
		if !found || of.Unread || slices.ContainsFunc(of.Containers, unknown) {
			continue // an unknown request can be all of the total
		}
		total, known := of.Resources.WholeCPUs()
		if !known {
			continue
		}
		var has, had cpuset.Set
		most := total
		owned, parts := 0, true
		for j := range of.Containers {
			ctr, to := &of.Containers[j], &p.Containers[j]
			if ctr.State == pools.Exited {
				continue
			}
			n, _ := ctr.Resources.WholeCPUs()
			if !of.Resized || !to.InPodPool() { // ephemeral containers keep their resources in a resize
				most = max(most, n, int(min(ctr.Resources.Shares, sharesCap)/sharesPerCPU))
			}
			if to.Pool == pools.Guaranteed && len(to.Claims) == 0 {
				has = has.Union(to.CPUs)
			}
			if key := (pools.Key{PodUID: p.UID, Container: ctr.Name}); to.Exclusive && !c.had[key].IsEmpty() {
				owned, had, parts = owned+n, had.Union(c.had[key]), parts && c.parts[key]
			}
		}
		if parts || had.Len() > most {
			most = max(most, owned)
		}
		if has.Len() > most {
			c.report("the containers of pod %s have CPUs %s; its total is %d, and it may have %d", p.UID, has, total, most)
		}
	}
}

// present returns the pods that are not gone, by UID. The first of several with one UID counts,
// and has the containers of all.
func present(in []pools.Pod) map[string]pools.Pod {
	sorted := slices.Clone(in)
	slices.SortStableFunc(sorted, func(a, b pools.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	all := make(map[string]pools.Pod)
	for _, p := range sorted {
		if p.Gone {
			continue
		}
		containers := slices.Concat(all[p.UID].Containers, p.Containers)
		if first, ok := all[p.UID]; ok {
			p = first
		}
		slices.SortFunc(containers, pools.CompareContainers)
		p.Containers = containers
		all[p.UID] = p
	}
	return all
}

// ownersOf returns the recorded owners of a pod with pod-level resources.
func ownersOf(all []pools.Assignment, uid string) (names []string) {
	for _, a := range all {
		if a.PodUID == uid {
			names = append(names, a.Owners...)
		}
	}
	return names
}
