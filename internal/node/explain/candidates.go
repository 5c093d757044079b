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

// maxCandidates bounds how many parts of a machine are looked at.
const maxCandidates = 64

// part is a part of a machine in which CPUs could be.
type part struct {
	name string
	node int // that it is in
	cpus cpuset.Set
}

// parts are the NUMA nodes, where there are several; else what the one node is made of:
// the last-level caches, or the dies. A machine that is all one has none.
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

// Candidates asks the allocator, for each part of the machine with guaranteed CPUs, what it
// would give there to somebody who asks for want CPUs with these options, and has own
// already. There are none on a machine that is all one, whose answer is that of the placement.
func Candidates(in *pools.Input, plan *pools.Plan, want int, options *allocate.Options, hinted, own cpuset.Set) []inspect.Candidate {
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
			c.Why = "has room; it keeps the CPUs that it has, since nobody who runs is moved"
		}
		c.Would = cpus
		if own.IsEmpty() && err == nil {
			c.Why = fmt.Sprintf("has room for %d, but see the reason of the refusal", want)
		}
		all = append(all, c)
	}
	return all
}
