package allocate_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine describes a regular machine. Each count is per unit of the one before:
// packages, nodes in each, caches in each node, cores in each cache.
type machine struct {
	packages, nodes, l3s, cores, threads int
	small                                int        // single-thread cores in each cache, after the others
	adjacent                             bool       // siblings are 2n, 2n+1 and not n, n+cores
	numaOff                              bool       // one node for all
	offline                              cpuset.Set // present, but not there
	isolated                             cpuset.Set // since boot
	bare                                 cpuset.Set // nodes without memory
}

func parseMachine(text string) (machine, error) {
	m := machine{packages: 1, nodes: 1, l3s: 1, cores: 1, threads: 1}
	for word := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(word, "=")
		sets := map[string]*cpuset.Set{"offline": &m.offline, "isolated": &m.isolated, "bare": &m.bare}
		if set := sets[key]; set != nil {
			var err error
			if *set, err = cpuset.Parse(value); err != nil {
				return m, err
			}
			continue
		}
		counts := map[string]*int{"packages": &m.packages, "nodes": &m.nodes, "l3s": &m.l3s, "cores": &m.cores, "threads": &m.threads, "small": &m.small}
		switch count := counts[key]; {
		case word == "adjacent":
			m.adjacent = true
		case word == "numa=off":
			m.numaOff = true
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

// topology builds what topology.Read would have read.
func (m machine) topology() *topology.Topology {
	perL3 := m.cores + m.small
	l3s := m.packages * m.nodes * m.l3s
	large := l3s * m.cores
	total := large*m.threads + l3s*m.small
	t := &topology.Topology{Possible: cpuset.Range(0, total-1), Present: cpuset.Range(0, total-1)}
	t.Online = t.Present.Difference(m.offline)
	t.Isolated = m.isolated.Intersection(t.Present)

	cores := make([][]int, l3s*perL3) // threads of each core
	largeSeen, smallSeen := 0, 0
	for i := range cores {
		if i%perL3 >= m.cores {
			cores[i] = []int{large*m.threads + smallSeen}
			smallSeen++
			continue
		}
		for thread := range m.threads {
			id := thread*large + largeSeen
			if m.adjacent {
				id = largeSeen*m.threads + thread
			}
			cores[i] = append(cores[i], id)
		}
		largeSeen++
	}
	cpus := make([]*topology.CPU, total)
	group := func(list *[]topology.Group, of func(core int) int) []int {
		index := make([]int, len(cores))
		sets := make([]cpuset.Set, len(cores))
		for i, threads := range cores {
			sets[of(i)] = sets[of(i)].Union(cpuset.Of(threads...).Intersection(t.Online))
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
	core := group(&t.Cores, func(i int) int { return i })
	l3 := group(&t.L3s, func(i int) int { return i / perL3 })
	pkg := group(&t.Packages, func(i int) int { return i / perL3 / m.l3s / m.nodes })
	t.Dies = t.Packages
	nodeOf := func(i int) int { return i / perL3 / m.l3s }
	nodes := m.packages * m.nodes
	if m.numaOff {
		nodeOf, nodes = func(int) int { return 0 }, 1
	}
	for n := range nodes {
		node := topology.Node{ID: n, HasMemory: !m.bare.Contains(n)}
		for other := range nodes {
			distance := 20
			switch {
			case other == n:
				distance = 10
			case other/m.nodes == n/m.nodes:
				distance = 12
			}
			node.Distances = append(node.Distances, distance)
		}
		t.Nodes = append(t.Nodes, node)
	}
	for i, threads := range cores {
		for _, id := range threads {
			if t.Online.Contains(id) {
				n := nodeOf(i)
				t.Nodes[n].CPUs = t.Nodes[n].CPUs.Union(cpuset.Of(id))
				kind := topology.Unknown
				switch {
				case m.small > 0 && i%perL3 >= m.cores:
					kind = topology.Efficiency
				case m.small > 0:
					kind = topology.Performance
				}
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
