package allocate

import (
	"iter"
	"math/bits"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Machine is a topology in the form that allocation needs: flat, by index. It is
// not changed after [New] and may be shared.
type Machine struct {
	topology *topology.Topology
	core     []int32 // index of a CPU's core, by CPU number; none where the CPU is not online
	cores    []core
	// leafOfCore and threadsOfCore contain values of cores again, in a
	// form that is fast to iterate over.
	leafOfCore, threadsOfCore []int32

	leaves []leaf
	cells  []cell
	// cellsOfNode and cellsOfPackage are indices into cells.
	cellsOfNode, cellsOfPackage [][]int32
	l3sSpanCells                bool // a cache has leaves in several cells
	words                       int  // length of a bitset of the online CPUs
	// isolated, and the kinds of core, are bitsets; hybrid reports that kinds are known.
	isolated, performance, efficiency []uint64
	hybrid                            bool
	// threads is the largest number of threads in a core. group is the greatest common
	// divisor of the cores' numbers of threads.
	threads, group int
}

// none is no index.
const none = -1

// core is a physical core with its online threads in ascending order.
type core struct {
	threads []int32
	leaf    int32
}

// leaf is the part of a cell that shares a last-level cache. A cache may have
// leaves in several cells (Intel's sub-NUMA clusters).
type leaf struct {
	cell, l3 int32
	cores    []int32 // ascending by lowest thread
}

// cell is the part of a NUMA node that is in one package: a node, or a package
// where a node spans several of them.
type cell struct {
	node, pkg int32
	leaves    []int32
}

// New returns the machine of a topology, which it keeps.
func New(t *topology.Topology) *Machine {
	m := &Machine{
		topology:       t,
		core:           make([]int32, t.Online.Last()+1),
		cores:          make([]core, len(t.Cores)),
		cellsOfNode:    make([][]int32, len(t.Nodes)),
		cellsOfPackage: make([][]int32, len(t.Packages)),
		words:          (t.Online.Last() + wordBits) / wordBits,
	}
	m.isolated, m.performance, m.efficiency = make([]uint64, m.words), make([]uint64, m.words), make([]uint64, m.words)
	for i := range m.core {
		m.core[i] = none
	}
	for _, cpu := range t.CPUs {
		m.add(cpu)
	}
	for i := range m.cores {
		n := len(m.cores[i].threads)
		m.leafOfCore = append(m.leafOfCore, m.cores[i].leaf)
		m.threadsOfCore = append(m.threadsOfCore, int32(n))
		m.threads, m.group = max(m.threads, n), gcd(m.group, n)
	}
	m.l3sSpanCells = len(m.leaves) > len(t.L3s)
	m.hybrid = count(m.performance) > 0 && count(m.efficiency) > 0
	return m
}

// Topology returns the topology of the machine.
func (m *Machine) Topology() *topology.Topology { return m.topology }

// Group is the greatest number that divides the numbers of online threads of all
// cores, at least 1: with full-pcpus-only all is given out in multiples of it.
func (m *Machine) Group() int { return max(m.group, 1) }

// coresIn yields the indices of the cores of cells.
func (m *Machine) coresIn(cells []int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, cell := range cells {
			for _, leaf := range m.cells[cell].leaves {
				for _, core := range m.leaves[leaf].cores {
					if !yield(core) {
						return
					}
				}
			}
		}
	}
}

// add enters a CPU; they come in ascending order.
func (m *Machine) add(cpu topology.CPU) {
	c := &m.cores[cpu.Core]
	if c.threads == nil {
		c.leaf = m.leafOf(m.cellOf(int32(cpu.Node), int32(cpu.Package)), int32(cpu.L3))
		m.leaves[c.leaf].cores = append(m.leaves[c.leaf].cores, int32(cpu.Core))
	}
	c.threads = append(c.threads, int32(cpu.ID))
	m.core[cpu.ID] = int32(cpu.Core)
	if m.topology.Isolated.Contains(cpu.ID) {
		setBit(m.isolated, cpu.ID)
	}
	switch cpu.Kind {
	case topology.Performance:
		setBit(m.performance, cpu.ID)
	case topology.Efficiency:
		setBit(m.efficiency, cpu.ID)
	}
}

// cellOf returns the cell of a node and a package. It creates a missing
// cell.
func (m *Machine) cellOf(node, pkg int32) int32 {
	for _, i := range m.cellsOfNode[node] {
		if m.cells[i].pkg == pkg {
			return i
		}
	}
	i := int32(len(m.cells))
	m.cells = append(m.cells, cell{node: node, pkg: pkg})
	m.cellsOfNode[node] = append(m.cellsOfNode[node], i)
	m.cellsOfPackage[pkg] = append(m.cellsOfPackage[pkg], i)
	return i
}

// leafOf returns the leaf of a cell and a cache. It creates a missing
// leaf.
func (m *Machine) leafOf(in, l3 int32) int32 {
	for _, i := range m.cells[in].leaves {
		if m.leaves[i].l3 == l3 {
			return i
		}
	}
	i := int32(len(m.leaves))
	m.leaves = append(m.leaves, leaf{cell: in, l3: l3})
	m.cells[in].leaves = append(m.cells[in].leaves, i)
	return i
}

// coreOf returns the index of a CPU's core, or none.
func (m *Machine) coreOf(cpu int) int32 {
	if cpu < 0 || cpu >= len(m.core) {
		return none
	}
	return m.core[cpu]
}

// distance between two nodes, by index, there and back; 0 where the kernel does
// not tell.
func (m *Machine) distance(a, b int32) int32 {
	sum := 0
	if d := m.topology.Nodes[a].Distances; int(b) < len(d) {
		sum += d[b]
	}
	if d := m.topology.Nodes[b].Distances; int(a) < len(d) {
		sum += d[a]
	}
	return int32(sum)
}

const wordBits = 64

// mark sets the bits of the online CPUs of a set.
func (m *Machine) mark(words []uint64, cpus cpuset.Set) {
	for cpu := range cpus.All() {
		if m.coreOf(cpu) != none {
			setBit(words, cpu)
		}
	}
}

func setBit(words []uint64, cpu int)      { words[cpu/wordBits] |= 1 << (cpu % wordBits) }
func clearBit(words []uint64, cpu int)    { words[cpu/wordBits] &^= 1 << (cpu % wordBits) }
func hasBit(words []uint64, cpu int) bool { return words[cpu/wordBits]&(1<<(cpu%wordBits)) != 0 }

// eachBit yields the numbers of the bits that are set, in ascending order.
func eachBit(words []uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

func overlap(a, b []uint64) bool {
	for i, w := range a {
		if w&b[i] != 0 {
			return true
		}
	}
	return false
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Shape describes the position of a set of CPUs on a machine. Fewer is better in each field
// but Cores, of which a set of some size needs a minimum.
type Shape struct {
	CPUs int // online CPUs of the set; the other fields ignore offline CPUs
	// Nodes, Packages, L3s and Cores are numbers of parts that the set touches.
	Nodes, Packages, L3s, Cores int
	SplitCores                  int // cores of which the set has some online threads and not all: other tasks may run on the rest
}

// Shape counts the parts of the machine that cpus touch. Other owners have no
// effect.
func (m *Machine) Shape(cpus cpuset.Set) Shape {
	t := m.topology
	s := Shape{CPUs: cpus.Intersection(t.Online).Len()}
	for i := range t.Nodes {
		s.Nodes += int(toInt(t.Nodes[i].CPUs.Overlaps(cpus)))
	}
	s.Packages, s.L3s, s.Cores = touched(t.Packages, cpus), touched(t.L3s, cpus), touched(t.Cores, cpus)
	for i := range t.Cores {
		if core := t.Cores[i].CPUs; core.Overlaps(cpus) && !core.IsSubsetOf(cpus) {
			s.SplitCores++
		}
	}
	return s
}

func touched(groups []topology.Group, cpus cpuset.Set) (n int) {
	for i := range groups {
		n += int(toInt(groups[i].CPUs.Overlaps(cpus)))
	}
	return n
}
