package choice

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Counts is what a choice costs.
type Counts struct {
	// Nodes, Packages and L3s are those that it touches.
	Nodes, Packages, L3s int
	// Split are the physical cores of which it has a part, but not all.
	Split int
	// Cores are the physical cores that it touches.
	Cores int
	// Uneven is the difference between the most and the fewest CPUs in a touched
	// node.
	Uneven int
}

// Count counts what a choice touches.
func Count(t *topology.Topology, cpus cpuset.Set) Counts {
	var c Counts
	for _, core := range t.Cores {
		switch n := core.CPUs.Intersection(cpus).Len(); {
		case n == core.CPUs.Len():
			c.Cores++
		case n > 0:
			c.Cores++
			c.Split++
		}
	}
	c.L3s, c.Packages = touched(t.L3s, cpus), touched(t.Packages, cpus)
	most, least := 0, cpus.Len()
	for _, node := range t.Nodes {
		if n := node.CPUs.Intersection(cpus).Len(); n > 0 {
			c.Nodes++
			most, least = max(most, n), min(least, n)
		}
	}
	c.Uneven = most - least
	return c
}

func touched(groups []topology.Group, cpus cpuset.Set) int {
	n := 0
	for _, g := range groups {
		if !g.CPUs.Intersection(cpus).IsEmpty() {
			n++
		}
	}
	return n
}

// Worse says in what ours is worse than theirs for a request with these options;
// empty when in nothing.
//
// The fewer NUMA nodes, sockets and caches the better, whatever the options, and
// the fewer split cores, unless the option is to spread over as many cores as
// possible. Where the option is to distribute over NUMA nodes and both choices
// have as many, the even one is better.
func Worse(o allocate.Options, ours, theirs Counts) []string {
	var worse []string
	more := func(what string, a, b int) {
		if a > b {
			worse = append(worse, fmt.Sprintf("%d %s instead of %d", a, what, b))
		}
	}
	more("NUMA nodes", ours.Nodes, theirs.Nodes)
	more("sockets", ours.Packages, theirs.Packages)
	more("caches", ours.L3s, theirs.L3s)
	switch {
	case !o.DistributeCPUsAcrossCores:
		more("split cores", ours.Split, theirs.Split)
	case ours.Cores < theirs.Cores:
		worse = append(worse, fmt.Sprintf("on %d cores instead of %d", ours.Cores, theirs.Cores))
	}
	if o.DistributeCPUsAcrossNUMA && ours.Nodes == theirs.Nodes {
		more("CPUs between the nodes' shares", ours.Uneven, theirs.Uneven)
	}
	return worse
}
