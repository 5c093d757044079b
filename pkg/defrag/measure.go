package defrag

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// measure is how badly an owner lies, in the order in which the allocator looks at
// it. Fewer is better in each place.
type measure [8]int

// Places in a measure.
const (
	unpreferred = iota // CPUs against a preference for isolation or a kind of core
	remote             // CPUs off the hinted nodes
	crowded            // split cores; with distribute-cpus-across-cores minus the cores
	nodes              // NUMA nodes
	packages
	l3s          // L3 groups
	uneven       // with distribute-cpus-across-numa, between most and least on a node
	idleSiblings // idle siblings: no other owner may use them
)

// measured is a set of CPUs with how an owner would lie on it.
type measured struct {
	cpus  cpuset.Set
	shape Shape
	measure
}

// measure returns the measure of owner i on cpus, without the effect of other owners.
func (n *node) measure(i int, cpus cpuset.Set) measured {
	o := &n.owners[i]
	s := n.shapeOf(i, cpus, cpuset.Set{})
	m := measure{
		unpreferred: n.unpreferred(o, cpus), remote: s.RemoteCPUs,
		crowded: s.SplitCores, nodes: s.Nodes, packages: s.Packages, l3s: s.L3Groups,
	}
	if o.Options.DistributeCPUsAcrossCores {
		m[crowded] = -n.machine.Shape(cpus).Cores
	}
	if o.Options.DistributeCPUsAcrossNUMA {
		m[uneven] = n.spread(cpus)
	}
	if o.Options.OneOwnerPerCore {
		m[idleSiblings] = n.idleSiblings(cpus)
	}
	return measured{cpus, s, m}
}

// idleSiblings counts the CPUs of the pool that are in the cores of cpus and not
// among them.
func (n *node) idleSiblings(cpus cpuset.Set) int {
	return n.coresOf(cpus).Intersection(n.pool).Difference(cpus).Len()
}

// unpreferred counts the CPUs that an owner prefers not to use.
func (n *node) unpreferred(o *pools.Owner, cpus cpuset.Set) int {
	count := 0
	for cpu := range cpus.All() {
		isolated := n.topology.Isolated.Contains(cpu)
		if o.Options.Isolated == allocate.Avoid && isolated || o.Options.Isolated == allocate.Prefer && !isolated {
			count++
		}
		if info, ok := n.topology.CPU(cpu); ok && o.Options.CoreTypePreference == allocate.Prefer && info.Kind.String() != string(o.Options.CoreType) {
			count++
		}
	}
	return count
}

// spread is the difference between the most and the fewest CPUs on a node that
// cpus touch.
func (n *node) spread(cpus cpuset.Set) int {
	most, fewest := 0, cpus.Len()
	for i := range n.topology.Nodes {
		if on := n.topology.Nodes[i].CPUs.Intersection(cpus).Len(); on > 0 {
			most, fewest = max(most, on), min(fewest, on)
		}
	}
	return most - fewest
}

// noWorse reports whether a is not above b in any place.
func (a measure) noWorse(b measure) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// better reports whether a is below b in a place and above it in no place.
func (a measure) better(b measure) bool { return a != b && a.noWorse(b) }

// compare puts the better of two measures first where that is not clear from each
// place alone: by the first place that differs.
func (a measure) compare(b measure) int { return slices.Compare(a[:], b[:]) }

// above is by how much a is above b, place by place.
func (a measure) above(b measure) measure {
	for i := range a {
		a[i] = max(a[i]-b[i], 0)
	}
	return a
}
