package defrag

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// node is who has which CPUs at some point of a list of moves.
type node struct {
	machine  *allocate.Machine
	topology *topology.Topology
	pool     cpuset.Set
	owners   []pools.Owner
	// at is what each of owners has.
	at []cpuset.Set
}

func newNode(in Input) *node {
	n := &node{machine: in.Machine, topology: in.Machine.Topology(), pool: in.Pool, owners: in.Owners}
	for i := range in.Owners {
		n.at = append(n.at, in.Owners[i].CPUs)
	}
	return n
}

// clone returns a copy that can be changed.
func (n *node) clone() *node {
	c := *n
	c.at = slices.Clone(n.at)
	return &c
}

// others is what all but owner i have together; i may be none.
func (n *node) others(i int) cpuset.Set {
	var all cpuset.Set
	for j := range n.at {
		if j != i {
			all = all.Union(n.at[j])
		}
	}
	return all
}

const nobody = -1

// closed are the cores that owners other than i have to themselves.
func (n *node) closed(i int) cpuset.Set {
	var all cpuset.Set
	for j := range n.at {
		if j != i && n.owners[j].Options.OneOwnerPerCore {
			all = all.Union(n.coresOf(n.at[j]))
		}
	}
	return all
}

// available are the CPUs that owner i could have: free ones and its own. With
// nobody for i they are those that a new owner could have.
func (n *node) available(i int) cpuset.Set {
	return n.pool.Difference(n.others(i)).Difference(n.closed(i))
}

// open are the available CPUs less those in cores of which another owner has a
// part, unless owner i is there already.
func (n *node) open(i int) cpuset.Set {
	others := n.coresOf(n.others(i))
	return n.available(i).Difference(others.Difference(n.coresOf(n.at[i])))
}

// mayCross says that owner i may go to the NUMA nodes of a place: only to touch
// fewer of them or to be nearer to its devices.
func (n *node) mayCross(i int, to measured) bool {
	now := n.now(i)
	return to.measure[nodes] < now[nodes] || to.measure[remote] < now[remote] ||
		n.nodesOf(to.cpus).IsSubsetOf(n.nodesOf(n.at[i]))
}

// now is how owner i lies, whoever its neighbours are.
func (n *node) now(i int) measure { return n.measure(i, n.at[i]).measure }

// coresOf returns all threads of the cores of cpus.
func (n *node) coresOf(cpus cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for cpu := range cpus.All() {
		if !all.Contains(cpu) {
			all = all.Union(n.topology.ThreadSiblings(cpu))
		}
	}
	return all
}

// wholeCores returns those of cpus of whose core all threads are among them.
func (n *node) wholeCores(cpus cpuset.Set) cpuset.Set {
	whole := cpus
	for cpu := range cpus.All() {
		if whole.Contains(cpu) && !n.topology.ThreadSiblings(cpu).IsSubsetOf(cpus) {
			whole = whole.Difference(cpuset.Of(cpu))
		}
	}
	return whole
}

// nodesOf returns the IDs of the NUMA nodes of cpus.
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

// shape is how owner i lies.
func (n *node) shape(i int) Shape { return n.shapeOf(i, n.at[i], n.others(i)) }

// shapeOf is how owner i would lie on cpus if others had that.
func (n *node) shapeOf(i int, cpus, others cpuset.Set) Shape {
	m := n.machine.Shape(cpus)
	s := Shape{SplitCores: m.SplitCores, L3Groups: m.L3s, Nodes: m.Nodes, Packages: m.Packages}
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

// describe completes moves with what they do.
func (n *node) describe(moves []step) []Move {
	at := n.clone()
	for i := range at.at {
		at.at[i] = n.owners[i].CPUs
	}
	out := make([]Move, 0, len(moves))
	for _, m := range moves {
		o := &at.owners[m.owner]
		move := Move{
			Name: nameOf(o), From: at.at[m.owner], To: m.to, Now: at.shape(m.owner), MakesRoom: m.makesRoom,
			FromNodes: at.nodesOf(at.at[m.owner]), ToNodes: at.nodesOf(m.to),
		}
		at.at[m.owner] = m.to
		move.Then = at.shape(m.owner)
		out = append(out, move)
	}
	return out
}

// replay makes moves.
func (n *node) replay(moves []Move) {
	for i := range moves {
		if o := n.find(moves[i].Key()); o != nobody {
			n.at[o] = moves[i].To
		}
	}
}

// find returns the index of an owner, or nobody.
func (n *node) find(key pools.Key) int {
	return slices.IndexFunc(n.owners, func(o pools.Owner) bool { return o.Key == key })
}
