package allocate

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Machine is a topology in the form that allocation needs: flat, by index.
type Machine struct {
	// core is the index of a CPU's core, by CPU number; none where the CPU is not
	// online.
	core  []int32
	cores []core
	cells []cell
	// threads is the largest number of threads in a core.
	threads int
	l3s     int
	// nodes and packages bound the indices in cells.
	nodes, packages int
	topology        *topology.Topology
}

// none is no index.
const none = -1

// core is a physical core with its online threads in ascending order.
type core struct {
	threads  []int32
	cell, l3 int32
}

// cell is the part of a NUMA node that is in one package: a node, or a package
// where the kernel sees no NUMA and has all packages in one node.
type cell struct {
	node, pkg int
	cores     []int32 // ascending by lowest thread
}

func New(t *topology.Topology) *Machine {
	m := &Machine{
		core:     make([]int32, t.Online.Last()+1),
		cores:    make([]core, len(t.Cores)),
		l3s:      len(t.L3s),
		nodes:    len(t.Nodes),
		packages: len(t.Packages),
		topology: t,
	}
	for i := range m.core {
		m.core[i] = none
	}
	room := make([]int32, len(t.CPUs)) // for the threads of all cores
	for _, cpu := range t.CPUs {
		c := &m.cores[cpu.Core]
		if c.threads == nil {
			n := t.Cores[cpu.Core].CPUs.Len()
			m.threads = max(m.threads, n)
			c.threads, room = room[:0:n], room[n:]
			c.cell, c.l3 = m.cellOf(cpu.Node, cpu.Package), int32(cpu.L3)
			m.cells[c.cell].cores = append(m.cells[c.cell].cores, int32(cpu.Core))
		}
		c.threads = append(c.threads, int32(cpu.ID))
		m.core[cpu.ID] = int32(cpu.Core)
	}
	return m
}

// cellOf returns the cell of a node and a package, which it makes when it is not
// there yet. Neighbouring CPUs are mostly in the same one.
func (m *Machine) cellOf(node, pkg int) int32 {
	for i, c := range slices.Backward(m.cells) {
		if c.node == node && c.pkg == pkg {
			return int32(i)
		}
	}
	m.cells = append(m.cells, cell{node: node, pkg: pkg})
	return int32(len(m.cells) - 1)
}

// coreOf returns the index of a CPU's core, or none.
func (m *Machine) coreOf(cpu int) int32 {
	if cpu < 0 || cpu >= len(m.core) {
		return none
	}
	return m.core[cpu]
}

// distance between two nodes, by index; 0 where the kernel does not tell.
func (m *Machine) distance(a, b int) int {
	if d := m.topology.Nodes[a].Distances; b < len(d) {
		return d[b]
	}
	return 0
}
