package choice

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Counts holds the costs of a choice.
type Counts struct {
	// Nodes, Packages and L3s are the numbers that it touches.
	Nodes, Packages, L3s int
	// Split are the physical cores of which it has a part, but not all.
	Split int
	// Cores are the physical cores that it touches.
	Cores int
	// Uneven is the difference between the most and the fewest CPUs in a touched
	// node.
	Uneven int
}

// Count counts the cores, nodes, packages and caches of a choice.
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

// criterion is something of which a choice should have little.
type criterion struct {
	what         string
	ours, theirs int
}

// criteria returns the criteria of these options, the most important first.
//
// Split cores come first, for the kubelet and for us. With align-by-socket, sockets
// come next. With prefer-align-cpus-by-uncorecache, caches come next. With distribution
// over NUMA nodes, a single node that suffices precedes everything, and among equal
// numbers of nodes the even share. With distribution over cores, it is the more cores
// on the fewest sockets, which takes more caches and parts of cores.
func criteria(o allocate.Options, ours, theirs Counts) []criterion {
	nodes := criterion{"NUMA nodes", ours.Nodes, theirs.Nodes}
	sockets := criterion{"sockets", ours.Packages, theirs.Packages}
	caches := criterion{"caches", ours.L3s, theirs.L3s}
	split := criterion{"split cores", ours.Split, theirs.Split}
	switch {
	case o.DistributeCPUsAcrossCores:
		most := max(ours.Cores, theirs.Cores)
		return []criterion{sockets, {"cores less than possible", most - ours.Cores, most - theirs.Cores}, nodes}
	case o.DistributeCPUsAcrossNUMA && ours.Nodes == theirs.Nodes:
		return []criterion{split, sockets, caches, {"CPUs between the nodes' shares", ours.Uneven, theirs.Uneven}}
	case o.DistributeCPUsAcrossNUMA:
		return []criterion{nodes, split, sockets, caches}
	case o.PreferAlignCPUsByUncoreCache && o.AlignBySocket:
		return []criterion{split, sockets, caches, nodes}
	case o.PreferAlignCPUsByUncoreCache:
		return []criterion{split, caches, nodes, sockets}
	case o.AlignBySocket:
		return []criterion{split, sockets, nodes, caches}
	default:
		return []criterion{split, nodes, sockets, caches}
	}
}

// Worse returns the criteria in which ours is worse than theirs for a request with
// these options. It is a fair trade when ours is better in a criterion that is more
// important than any of them.
func Worse(o allocate.Options, ours, theirs Counts) (worse []string, trade bool) {
	better := false
	for _, c := range criteria(o, ours, theirs) {
		switch {
		case c.ours < c.theirs:
			better = true
		case c.ours > c.theirs:
			trade = trade || better && len(worse) == 0
			worse = append(worse, fmt.Sprintf("%d %s instead of %d", c.ours, c.what, c.theirs))
		}
	}
	return worse, trade
}
