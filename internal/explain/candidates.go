package explain

import (
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// maxCandidates bounds how many NUMA nodes are looked at.
const maxCandidates = 64

// Candidates asks the allocator, for each NUMA node with guaranteed CPUs, what it would give
// there to somebody who asks for want CPUs with these options, and has own already. There
// are none on a machine of one node, whose answer is that of the placement.
func Candidates(in *pools.Input, plan *pools.Plan, want int, options *allocate.Options, hinted, own cpuset.Set) []inspect.Candidate {
	t := in.Machine.Topology()
	if want <= 0 || options == nil || len(t.Nodes) < 2 {
		return nil
	}
	var all []inspect.Candidate
	for i := range t.Nodes {
		n := &t.Nodes[i]
		c := inspect.Candidate{Node: n.ID, CPUs: n.CPUs.Intersection(in.Pools.Guaranteed), Has: n.CPUs.Overlaps(own)}
		if c.CPUs.IsEmpty() || len(all) == maxCandidates {
			continue
		}
		c.Free = n.CPUs.Intersection(plan.Free.Union(own))
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
