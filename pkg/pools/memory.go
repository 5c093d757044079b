package pools

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// memory knows which NUMA node's memory belongs to each CPU.
type memory struct {
	topology *topology.Topology
	// near has for each node, by index, the ID of the nearest with memory: itself
	// in most cases; none where no node is known to have memory.
	near []int
}

func newMemory(t *topology.Topology) *memory {
	m := &memory{topology: t, near: make([]int, len(t.Nodes))}
	for i := range t.Nodes {
		m.near[i] = nearestMemory(t, i)
	}
	return m
}

// nearestMemory returns the ID of the node with memory that is nearest to the one
// with index i; of equals the lowest.
func nearestMemory(t *topology.Topology, i int) int {
	from := t.Nodes[i]
	best, least := none, 0
	for j, node := range t.Nodes {
		switch {
		case !node.HasMemory:
			continue
		case j == i:
			return node.ID
		}
		distance := 0
		if j < len(from.Distances) {
			distance = from.Distances[j]
		}
		if best == none || distance < least {
			best, least = node.ID, distance
		}
	}
	return best
}

// of returns the IDs of the nodes whose memory the CPUs should use; none when
// memory is not bound.
func (m *memory) of(cpus cpuset.Set) cpuset.Set {
	if m == nil {
		return cpuset.Set{}
	}
	var ids []int
	for id := range cpus.All() {
		if cpu, ok := m.topology.CPU(id); ok && m.near[cpu.Node] != none {
			ids = append(ids, m.near[cpu.Node])
		}
	}
	return cpuset.Of(ids...)
}
