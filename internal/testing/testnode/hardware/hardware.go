// Package hardware builds the topologies of regular machines, for tests and benchmarks.
package hardware

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Machine describes a regular machine.
type Machine struct {
	// Each count is at least 1, and per unit of the previous one: NUMA nodes in each package,
	// caches in each node, cores in each cache, threads in each core.
	Packages, Nodes, L3s, Cores, Threads int
	// Small is the number of single-thread cores in each cache. They follow the other cores.
	Small int
	// Adjacent numbers siblings 2n and 2n+1, instead of n and n+cores.
	Adjacent bool
	// NUMAOff makes the machine a single NUMA node.
	NUMAOff bool
	// Offline holds present CPUs that are offline.
	Offline cpuset.Set
	// Isolated holds the CPUs that are isolated since the boot.
	Isolated cpuset.Set
	// Bare holds the NUMA nodes without memory.
	Bare cpuset.Set
}

// Parse parses words like "packages=2 cores=4 threads=2 adjacent numa=off offline=3,9". The
// default of a count is 1.
func Parse(text string) (Machine, error) {
	m := Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 1, Threads: 1}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		sets := map[string]*cpuset.Set{"offline": &m.Offline, "isolated": &m.Isolated, "bare": &m.Bare}
		if set := sets[key]; set != nil {
			var err error
			if *set, err = cpuset.Parse(value); err != nil {
				return m, err
			}
			continue
		}
		counts := map[string]*int{"packages": &m.Packages, "nodes": &m.Nodes, "l3s": &m.L3s, "cores": &m.Cores, "threads": &m.Threads, "small": &m.Small}
		switch count := counts[key]; {
		case word == "adjacent":
			m.Adjacent = true
		case word == "numa=off":
			m.NUMAOff = true
		case count != nil:
			n, err := strconv.Atoi(value)
			if err != nil {
				return m, err
			}
			*count = n
		default:
			return m, fmt.Errorf("unknown word %q", word)
		}
	}
	return m, nil
}

// Small returns different machines with up to 16 CPUs.
func Small() []Machine {
	return []Machine{
		{Packages: 1, Nodes: 1, L3s: 1, Cores: 6, Threads: 2},
		{Packages: 2, Nodes: 1, L3s: 1, Cores: 3, Threads: 2},
		{Packages: 2, Nodes: 2, L3s: 1, Cores: 2, Threads: 2, Offline: cpuset.Of(3, 9, 13, 14)},
		{Packages: 2, Nodes: 2, L3s: 1, Cores: 3, Threads: 1},
		{Packages: 3, Nodes: 1, L3s: 2, Cores: 1, Threads: 2, Adjacent: true},
		{Packages: 1, Nodes: 2, L3s: 1, Cores: 2, Threads: 2, Small: 2},
		{Packages: 3, Nodes: 1, L3s: 1, Cores: 2, Threads: 2, NUMAOff: true},
		{Packages: 1, Nodes: 3, L3s: 1, Cores: 1, Threads: 4},
		{Packages: 2, Nodes: 3, L3s: 1, Cores: 1, Threads: 2},
		{Packages: 1, Nodes: 1, L3s: 1, Cores: 3, Threads: 4, Adjacent: true},
		{Packages: 1, Nodes: 2, L3s: 3, Cores: 2, Threads: 1},
		{Packages: 1, Nodes: 1, L3s: 4, Cores: 3, Threads: 1},
		{Packages: 1, Nodes: 2, L3s: 2, Cores: 2, Threads: 2, Adjacent: true},
		{Packages: 2, Nodes: 2, L3s: 2, Cores: 2, Threads: 1},
		{Packages: 2, Nodes: 1, L3s: 1, Cores: 2, Threads: 2, Small: 2},
	}
}

// Topology returns the topology that topology.Read would return on the machine.
func (m Machine) Topology() *topology.Topology {
	cores := m.threadsOfCores()
	last := 0
	for _, threads := range cores {
		last = max(last, threads[len(threads)-1])
	}
	t := &topology.Topology{Possible: cpuset.Range(0, last), Present: cpuset.Range(0, last)}
	t.Online = t.Present.Difference(m.Offline)
	t.Isolated = m.Isolated.Intersection(t.Present)

	perL3 := m.Cores + m.Small
	perNode := perL3 * m.L3s
	core := group(&t.Cores, cores, t.Online, func(i int) int { return i })
	l3 := group(&t.L3s, cores, t.Online, func(i int) int { return i / perL3 })
	pkg := group(&t.Packages, cores, t.Online, func(i int) int { return i / perNode / m.Nodes })
	t.Dies = t.Packages
	t.Nodes = m.nodes()
	cpus := make([]*topology.CPU, last+1)
	for i, threads := range cores {
		n := i / perNode
		if m.NUMAOff {
			n = 0
		}
		kind := topology.Unknown
		switch {
		case m.Small > 0 && i%perL3 >= m.Cores:
			kind = topology.Efficiency
		case m.Small > 0:
			kind = topology.Performance
		}
		for _, id := range threads {
			if t.Online.Contains(id) {
				t.Nodes[n].CPUs = t.Nodes[n].CPUs.Union(cpuset.Of(id))
				cpus[id] = &topology.CPU{ID: id, Kind: kind, Core: core[i], L3: l3[i], Die: pkg[i], Package: pkg[i], Node: n}
			}
		}
	}
	for _, cpu := range cpus {
		if cpu != nil {
			t.CPUs = append(t.CPUs, *cpu)
		}
	}
	return t
}

// threadsOfCores returns the threads of each core. Cores of one cache follow each other.
func (m Machine) threadsOfCores() [][]int {
	perL3 := m.Cores + m.Small
	l3s := m.Packages * m.Nodes * m.L3s
	large := l3s * m.Cores
	cores := make([][]int, l3s*perL3)
	largeSeen, smallSeen := 0, 0
	for i := range cores {
		if i%perL3 >= m.Cores {
			cores[i] = []int{large*m.Threads + smallSeen}
			smallSeen++
			continue
		}
		for thread := range m.Threads {
			id := thread*large + largeSeen
			if m.Adjacent {
				id = largeSeen*m.Threads + thread
			}
			cores[i] = append(cores[i], id)
		}
		largeSeen++
	}
	return cores
}

// group appends the groups of the cores to list, if they have online CPUs. It returns the index
// in list of each core's group.
func group(list *[]topology.Group, cores [][]int, online cpuset.Set, of func(core int) int) []int {
	index := make([]int, len(cores))
	sets := make([]cpuset.Set, len(cores))
	for i, threads := range cores {
		sets[of(i)] = sets[of(i)].Union(cpuset.Of(threads...).Intersection(online))
	}
	place := make(map[int]int)
	for i := range cores {
		g := of(i)
		if sets[g].IsEmpty() {
			continue
		}
		if _, ok := place[g]; !ok {
			place[g] = len(*list)
			*list = append(*list, topology.Group{ID: sets[g].First(), CPUs: sets[g]})
		}
		index[i] = place[g]
	}
	return index
}

// nodes returns the NUMA nodes without their CPUs. The nodes of a package are nearer to each
// other than to others.
func (m Machine) nodes() []topology.Node {
	count := m.Packages * m.Nodes
	if m.NUMAOff {
		count = 1
	}
	nodes := make([]topology.Node, count)
	for n := range nodes {
		nodes[n] = topology.Node{ID: n, HasMemory: !m.Bare.Contains(n)}
		for other := range nodes {
			distance := 20
			switch {
			case other == n:
				distance = 10
			case other/m.Nodes == n/m.Nodes:
				distance = 12
			}
			nodes[n].Distances = append(nodes[n].Distances, distance)
		}
	}
	return nodes
}
