// Package choice compares two choices of CPUs for the same request: ours with the
// choice of the kubelet's static CPU manager policy. test/vectors compares recorded
// choices, and bench/kubelet the kubelet's own code.
package choice

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Table is a machine as the kubelet sees it: for each CPU its number and the
// numbers of its core, socket, NUMA node and last-level cache.
type Table [][5]int

// Columns of a Table.
const (
	CPU = iota
	Core
	Socket
	Node
	Cache
)

// Topology builds the value that topology.Read would have read on the machine. Cores
// and caches do not reach beyond a socket, though some tables repeat their numbers in
// each. A table with one cache number for several sockets or nodes does not know its
// caches. Distances have common values: 10 within a node, 12 within a socket, 21
// beyond.
func (table Table) Topology() (*topology.Topology, error) {
	t := &topology.Topology{}
	cpus := slices.Clone(table)
	slices.SortFunc(cpus, func(a, b [5]int) int { return a[CPU] - b[CPU] })
	all := make([]int, len(cpus))
	for i, c := range cpus {
		if all[i] = c[CPU]; c[CPU] < 0 || c[CPU] >= cpuset.MaxCPUs || i > 0 && all[i] == all[i-1] {
			return nil, fmt.Errorf("CPU %d of a table is negative, too large or there twice", c[CPU])
		}
	}
	t.Online = cpuset.Of(all...)
	t.Possible, t.Present = t.Online, t.Online

	cache := func(c [5]int) [3]int { return [3]int{c[Socket], c[Cache]} }
	if slices.IndexFunc(cpus, func(c [5]int) bool { return c[Cache] != cpus[0][Cache] }) < 0 {
		cache = func(c [5]int) [3]int { return [3]int{c[Socket], c[Node]} }
	}
	var core, l3, pkg []int
	t.Cores, core = groups(cpus, func(c [5]int) [3]int { return [3]int{c[Socket], c[Core]} })
	t.L3s, l3 = groups(cpus, cache)
	t.Packages, pkg = groups(cpus, func(c [5]int) [3]int { return [3]int{c[Socket]} })
	nodes, node := nodes(cpus)
	t.Nodes = nodes
	for i := range t.Packages {
		t.Packages[i].ID = cpus[slices.Index(pkg, i)][Socket]
	}
	t.Dies = slices.Clone(t.Packages)
	for i, id := range all {
		t.CPUs = append(t.CPUs, topology.CPU{ID: id, Core: core[i], L3: l3[i], Die: pkg[i], Package: pkg[i], Node: node[i]})
	}
	return t, nil
}

// groups returns the sets of CPUs with the same key, in the order of their lowest
// CPUs, and for each CPU the index of its set.
func groups(cpus Table, key func([5]int) [3]int) ([]topology.Group, []int) {
	seen := map[[3]int]int{}
	var members [][]int
	index := make([]int, len(cpus))
	for i, c := range cpus {
		at, ok := seen[key(c)]
		if !ok {
			at = len(members)
			seen[key(c)] = at
			members = append(members, nil)
		}
		members[at] = append(members[at], c[CPU])
		index[i] = at
	}
	list := make([]topology.Group, len(members))
	for i, ids := range members {
		list[i] = topology.Group{ID: ids[0], CPUs: cpuset.Of(ids...)}
	}
	return list, index
}

// nodes returns the NUMA nodes by ID, and for each CPU the index of its node.
func nodes(cpus Table) ([]topology.Node, []int) {
	byNode, index := groups(cpus, func(c [5]int) [3]int { return [3]int{c[Node]} })
	order := make([]int, len(byNode)) // positions in byNode, by ID of the node
	first := make([][5]int, len(byNode))
	for i := range byNode {
		order[i], first[i] = i, cpus[slices.Index(index, i)]
	}
	slices.SortFunc(order, func(a, b int) int { return first[a][Node] - first[b][Node] })
	list := make([]topology.Node, len(order))
	for i, at := range order {
		list[i] = topology.Node{ID: first[at][Node], CPUs: byNode[at].CPUs, HasMemory: true}
		for _, other := range order {
			distance := 21
			switch {
			case at == other:
				distance = 10
			case first[at][Socket] == first[other][Socket]:
				distance = 12
			}
			list[i].Distances = append(list[i].Distances, distance)
		}
	}
	for i := range index {
		index[i] = slices.Index(order, index[i])
	}
	return list, index
}
