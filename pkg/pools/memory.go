package pools

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// memory knows which NUMA node's memory belongs to each CPU.
type memory struct {
	topology *topology.Topology
	// near holds for each node, by index, the IDs of the nearest nodes with memory: the node
	// itself in most cases. It is empty if no node is known to have memory. With numa=fake,
	// several nodes have the memory of the same CPUs.
	near []cpuset.Set
}

func newMemory(t *topology.Topology) *memory {
	m := &memory{topology: t, near: make([]cpuset.Set, len(t.Nodes))}
	for i := range t.Nodes {
		m.near[i] = nearestMemory(t, i)
	}
	return m
}

// nearestMemory returns the IDs of the nodes whose memory is nearest to the node with index i.
// These are the node itself and nodes without CPUs that are as near. If the node has no memory,
// it is the nearest node with memory, the lowest of equal ones.
func nearestMemory(t *topology.Topology, i int) cpuset.Set {
	from := t.Nodes[i]
	distance := func(j int) int {
		if j < len(from.Distances) {
			return from.Distances[j]
		}
		return 0
	}
	best := none
	for j, node := range t.Nodes {
		if node.HasMemory && (best == none || j == i || best != i && distance(j) < distance(best)) {
			best = j
		}
	}
	if best == none {
		return cpuset.Set{}
	}
	near := cpuset.Of(t.Nodes[best].ID)
	for j, node := range t.Nodes {
		if best == i && j != i && node.HasMemory && node.CPUs.IsEmpty() && j < len(from.Distances) && distance(j) <= distance(i) {
			near = near.Union(cpuset.Of(node.ID))
		}
	}
	return near
}

// of returns the IDs of the nodes whose memory the CPUs should use; empty if
// memory is not bound.
func (m *memory) of(cpus cpuset.Set) cpuset.Set {
	var ids cpuset.Set
	if m == nil {
		return ids
	}
	last := none
	for id := range cpus.All() {
		if cpu, ok := m.topology.CPU(id); ok && cpu.Node != last {
			last, ids = cpu.Node, ids.Union(m.near[cpu.Node])
		}
	}
	return ids
}
