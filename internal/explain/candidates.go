package explain

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

const maxCandidates = 64

type part struct {
	name string
	node int // NUMA node of the part
	cpus cpuset.Set
}

// parts returns the NUMA nodes of the machine. With a single NUMA node, it returns the last-level
// caches or the dies of the node. It returns nothing if there is only one of each.
func parts(t *topology.Topology) (all []part) {
	if len(t.Nodes) > 1 {
		for i := range t.Nodes {
			n := &t.Nodes[i]
			all = append(all, part{fmt.Sprintf("NUMA node %d", n.ID), n.ID, n.CPUs})
		}
		return all
	}
	groups, kind := t.L3s, "last-level cache"
	if len(groups) < 2 {
		groups, kind = t.Dies, "die"
	}
	if len(groups) < 2 || len(t.Nodes) == 0 {
		return nil
	}
	for _, g := range groups {
		all = append(all, part{fmt.Sprintf("%s of CPUs %s", kind, g.CPUs), t.Nodes[0].ID, g.CPUs})
	}
	return all
}

// candidates returns, for each part of the machine with guaranteed CPUs, the CPUs that the
// allocator would choose there. The request is for want CPUs with options; own holds the current
// CPUs of the owner. Without parts there are no candidates: the placement answers for the
// machine.
func candidates(in *pools.Input, plan *pools.Plan, want int, options *allocate.Options, hinted, own cpuset.Set) []inspect.Candidate {
	if want <= 0 || options == nil {
		return nil
	}
	var all []inspect.Candidate
	for _, p := range parts(in.Machine.Topology()) {
		c := inspect.Candidate{Part: p.name, Node: p.node, CPUs: p.cpus.Intersection(in.Pools.Guaranteed), Has: p.cpus.Overlaps(own)}
		if c.CPUs.IsEmpty() || len(all) == maxCandidates {
			continue
		}
		c.Free = p.cpus.Intersection(plan.Free.Union(own))
		cpus, err := in.Machine.Supply(c.Free).Take(allocate.Request{CPUs: want, Nodes: hinted, Options: *options})
		refusal, refused := errors.AsType[*allocate.Refusal](err)
		switch {
		case refused:
			c.Why = "rejected: " + refusal.Why
		case err != nil:
			c.Why = "rejected: " + err.Error()
		case c.Has:
			c.Why = "it has CPUs here, and keeps them"
		default:
			c.Why = "has free capacity; a running container keeps its CPUs"
		}
		c.Would = cpus
		if own.IsEmpty() && err == nil {
			c.Why = fmt.Sprintf("has free capacity for %d; see the reason of the refusal", want)
		}
		all = append(all, c)
	}
	return all
}
