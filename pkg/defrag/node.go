package defrag

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// node holds the CPUs of each owner at some point of a list of moves.
type node struct {
	machine  *allocate.Machine
	topology *topology.Topology
	pool     cpuset.Set
	owners   []pools.Owner
	// at are the CPUs of each owner; put sets them. cores are the cores of these CPUs,
	// and lies is their measure, or nil.
	at    []cpuset.Set
	cores []cpuset.Set
	lies  []*measure
	// taken is what all owners have together, and touched its cores.
	taken, touched cpuset.Set
}

func newNode(in Input) *node {
	n := &node{
		machine: in.Machine, topology: in.Machine.Topology(), pool: in.Pool, owners: in.Owners,
		at: make([]cpuset.Set, len(in.Owners)), cores: make([]cpuset.Set, len(in.Owners)), lies: make([]*measure, len(in.Owners)),
	}
	for i := range in.Owners {
		n.put(i, in.Owners[i].CPUs)
	}
	return n
}

// put replaces the CPUs of owner i with CPUs that no other owner has.
func (n *node) put(i int, cpus cpuset.Set) {
	n.taken = n.taken.Difference(n.at[i]).Union(cpus)
	left := n.touched.Difference(n.cores[i])
	for cpu := range n.cores[i].All() { // others may be in them
		if core := n.topology.ThreadSiblings(cpu); !left.Contains(cpu) && core.Overlaps(n.taken) {
			left = left.Union(core)
		}
	}
	n.at[i], n.cores[i], n.lies[i] = cpus, n.coresOf(cpus), nil
	n.touched = left.Union(n.cores[i])
}

func (n *node) clone() *node {
	c := *n
	c.at, c.cores, c.lies = slices.Clone(n.at), slices.Clone(n.cores), slices.Clone(n.lies)
	return &c
}

// others returns the CPUs of all owners but i; i may be noOwner.
func (n *node) others(i int) cpuset.Set {
	if i == noOwner {
		return n.taken
	}
	return n.taken.Difference(n.at[i])
}

const noOwner = -1

// available returns the CPUs that owner i could have: free CPUs and its own, without the
// exclusive cores of other owners. With noOwner for i they are the CPUs that a new owner could have.
func (n *node) available(i int) cpuset.Set {
	all := n.pool.Difference(n.others(i))
	for j := range n.at {
		if j != i && n.owners[j].Options.OneOwnerPerCore {
			all = all.Difference(n.cores[j])
		}
	}
	return all
}

// open are the available CPUs less those in cores of which another owner has a
// part, unless owner i is there already.
func (n *node) open(i int) cpuset.Set {
	return n.available(i).Difference(n.touched.Difference(n.cores[i]))
}

// mayCross reports whether owner i may go to the NUMA nodes of a place: only to touch
// fewer of them or to be nearer to its devices.
func (n *node) mayCross(i int, to measured) bool {
	now := n.now(i)
	return to.measure[nodes] < now[nodes] || to.measure[remote] < now[remote] ||
		n.nodesOf(to.cpus).IsSubsetOf(n.nodesOf(n.at[i]))
}

// now returns the measure of owner i, without the effect of other owners.
func (n *node) now(i int) measure {
	if n.lies[i] == nil {
		m := n.measure(i, n.at[i]).measure
		n.lies[i] = &m
	}
	return *n.lies[i]
}

// coresOf returns all threads of the cores of cpus.
func (n *node) coresOf(cpus cpuset.Set) cpuset.Set {
	var all []int
	for cpu := range cpus.All() {
		all = slices.AppendSeq(all, n.topology.ThreadSiblings(cpu).All())
	}
	return cpuset.Of(all...)
}

// wholeCores returns the CPUs among cpus whose cores are completely in cpus.
func (n *node) wholeCores(cpus cpuset.Set) cpuset.Set {
	whole := cpus
	for cpu := range cpus.All() {
		if whole.Contains(cpu) && !n.topology.ThreadSiblings(cpu).IsSubsetOf(cpus) {
			whole = whole.Difference(cpuset.Of(cpu))
		}
	}
	return whole
}

func (n *node) nodesOf(cpus cpuset.Set) cpuset.Set {
	var ids []int
	for i := range n.topology.Nodes {
		if n.topology.Nodes[i].CPUs.Overlaps(cpus) {
			ids = append(ids, n.topology.Nodes[i].ID)
		}
	}
	return cpuset.Of(ids...)
}

// hinted are the CPUs of the nodes that an owner's hints name, and whether they
// count for it.
func (n *node) hinted(o *pools.Owner) (cpuset.Set, bool) {
	if o.Nodes.IsEmpty() || o.Options.TopologyPolicy == allocate.None {
		return cpuset.Set{}, false
	}
	var cpus cpuset.Set
	for i := range n.topology.Nodes {
		if o.Nodes.Contains(n.topology.Nodes[i].ID) {
			cpus = cpus.Union(n.topology.Nodes[i].CPUs)
		}
	}
	return cpus, !cpus.IsEmpty()
}

func (n *node) shape(i int) Shape { return n.shapeOf(i, n.at[i], n.others(i)) }

// shapeOf returns the shape of owner i on cpus, with others as the CPUs of other owners.
func (n *node) shapeOf(i int, cpus, others cpuset.Set) Shape {
	m := n.machine.Shape(cpus)
	s := Shape{L3Groups: m.L3s, Nodes: m.Nodes, Packages: m.Packages}
	if !n.owners[i].Options.DistributeCPUsAcrossCores {
		s.SplitCores = m.SplitCores
	}
	for c := 0; c < len(n.topology.Cores) && !others.IsEmpty(); c++ {
		core := n.topology.Cores[c].CPUs
		if core.Overlaps(cpus) && core.Overlaps(others) {
			s.SharedCores++
		}
	}
	if near, counts := n.hinted(&n.owners[i]); counts {
		s.RemoteCPUs = cpus.Difference(near).Len()
	}
	return s
}

// describe converts moves that start at n to the moves of a report.
func (n *node) describe(moves []step) []Move {
	at := n.clone()
	out := make([]Move, 0, len(moves))
	for _, m := range moves {
		o := &at.owners[m.owner]
		move := Move{
			Name: nameOf(o), From: at.at[m.owner], To: m.to, Now: at.shape(m.owner), MakesRoom: m.makesRoom,
			FromNodes: at.nodesOf(at.at[m.owner]), ToNodes: at.nodesOf(m.to),
		}
		at.put(m.owner, m.to)
		move.Then = at.shape(m.owner)
		out = append(out, move)
	}
	return out
}

// Room is the free capacity for a new owner. Each number is the number of CPUs of the
// largest request that fits completely.
type Room struct {
	Free int `json:"free"` // free CPUs of the machine
	// OnNode is within one NUMA node, InL3 within one L3 group, and InWholeCores in
	// whole cores of one node.
	OnNode       int        `json:"onNode"`
	InL3         int        `json:"inL3"`
	InWholeCores int        `json:"inWholeCores"`
	Nodes        []NodeRoom `json:"nodes"` // same for each node that has CPUs of the pool
}

// NodeRoom is the room on a NUMA node.
type NodeRoom struct {
	Node         int `json:"node"`
	Free         int `json:"free"`
	InL3         int `json:"inL3"`
	InWholeCores int `json:"inWholeCores"`
}

// Vacant is the room that owners leave now: that of Analyse, without its search for
// moves.
func Vacant(in Input) Room { return newNode(in).room() }

func (n *node) room() Room {
	free := n.available(noOwner)
	r := Room{Free: free.Len()}
	for i := range n.topology.Nodes {
		t := &n.topology.Nodes[i]
		if !t.CPUs.Overlaps(n.pool) {
			continue
		}
		here := free.Intersection(t.CPUs)
		on := NodeRoom{Node: t.ID, Free: here.Len(), InL3: n.largestL3(here), InWholeCores: n.wholeCores(here).Len()}
		r.OnNode, r.InWholeCores = max(r.OnNode, on.Free), max(r.InWholeCores, on.InWholeCores)
		r.Nodes = append(r.Nodes, on)
	}
	r.InL3 = n.largestL3(free)
	return r
}

// largestL3 is how many of cpus are in the L3 group that has the most.
func (n *node) largestL3(cpus cpuset.Set) int {
	most := 0
	for i := range n.topology.L3s {
		most = max(most, n.topology.L3s[i].CPUs.Intersection(cpus).Len())
	}
	return most
}

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
