package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Place is where an online CPU is, for [Assemble].
type Place struct {
	ID int // kernel's number of the CPU, 0..cpuset.MaxCPUs-1
	// Core, L3, Package and Node are numbers that are unique in the machine, and Die is
	// unique in its package. L3 is -1 if it is not known. Die and Package are -1 if the
	// machine has no dies or packages. Node is the ID of a node.
	Core, L3, Die, Package, Node int
	Kind                         CoreKind
	Capacity                     int // as in [CPU]
}

// Assemble returns the topology of a machine with online CPUs at these places, in any
// order. It fills in the CPUs of the nodes. Present and Possible are the online CPUs, and
// no CPU is isolated; the caller can change these fields. The threads of a core belong to one
// cache, die, package and node, because owners get whole cores. If the places differ, the place
// of the lowest CPU counts, and the topology has a warning. If no place has a kind, the
// capacities decide it.
func Assemble(places []Place, nodes []Node) (*Topology, error) {
	if len(places) == 0 {
		return nil, errors.New("no CPU is online")
	}
	places = slices.SortedFunc(slices.Values(places), func(a, b Place) int { return cmp.Compare(a.ID, b.ID) })
	t := &Topology{CPUs: make([]CPU, len(places)), Nodes: slices.SortedFunc(slices.Values(nodes), func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })}
	if err := checkNodes(t.Nodes); err != nil {
		return nil, err
	}
	type cache struct{ l3, pkg, node int }
	type die struct{ pkg, die int }
	cores, packages := newGrouping[int](), newGrouping[int]()
	caches, dies := newGrouping[cache](), newGrouping[die]()
	members := make([][]int, len(nodes))
	first := make(map[int]Place)
	var split []int
	for i, p := range places {
		if p.ID < 0 || p.ID >= cpuset.MaxCPUs || i > 0 && places[i-1].ID == p.ID {
			return nil, fmt.Errorf("CPU %d occurs twice, or is outside 0-%d", p.ID, cpuset.MaxCPUs-1)
		}
		if f, seen := first[p.Core]; !seen {
			first[p.Core] = p
		} else if f.Package != p.Package || f.Die != p.Die || f.Node != p.Node || f.L3 != p.L3 {
			split = append(split, p.ID)
			p.Package, p.Die, p.Node, p.L3 = f.Package, f.Die, f.Node, f.L3
		}
		n, ok := slices.BinarySearchFunc(t.Nodes, p.Node, func(n Node, id int) int { return cmp.Compare(n.ID, id) })
		if !ok {
			return nil, fmt.Errorf("CPU %d is in NUMA node %d, and the machine has no such node", p.ID, p.Node)
		}
		l3 := cache{l3: p.L3}
		if p.L3 < 0 {
			l3 = cache{-1, p.Package, p.Node}
		}
		members[n] = append(members[n], p.ID)
		t.CPUs[i] = CPU{ID: p.ID, Kind: p.Kind, Capacity: p.Capacity, Node: n,
			Core: cores.add(p.ID, p.Core, p.ID), L3: caches.add(p.ID, l3, p.ID),
			Die: dies.add(p.ID, die{p.Package, p.Die}, p.Die), Package: packages.add(p.ID, p.Package, p.Package)}
	}
	t.Cores, t.L3s, t.Dies, t.Packages = cores.groups(), caches.groups(), dies.groups(), packages.groups()
	for i := range t.Nodes {
		t.Nodes[i].CPUs = cpuset.Of(members[i]...)
		t.Online = t.Online.Union(t.Nodes[i].CPUs)
	}
	t.Present, t.Possible = t.Online, t.Online
	if len(split) > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("CPUs %s are threads of cores in another cache, die, package or NUMA node: each counts as a part of the place of its core's lowest CPU. "+
			"In a virtual machine, correct its CPU topology", cpuset.Of(split...)))
	}
	if !slices.ContainsFunc(t.CPUs, func(c CPU) bool { return c.Kind != Unknown }) {
		t.kindsBySpeed(func(c CPU) int { return c.Capacity })
	}
	return t, nil
}

// checkNodes returns an error if sorted nodes have properties that allocators cannot
// handle.
func checkNodes(nodes []Node) error {
	for i := range nodes {
		switch n := &nodes[i]; {
		case n.ID < 0 || i > 0 && nodes[i-1].ID == n.ID:
			return fmt.Errorf("NUMA node %d occurs twice, or is below 0", n.ID)
		case len(n.Distances) != len(nodes):
			return fmt.Errorf("NUMA node %d has %d distances; want one to each of %d nodes", n.ID, len(n.Distances), len(nodes))
		case slices.Min(n.Distances) < 0:
			return fmt.Errorf("NUMA node %d has a distance below 0", n.ID)
		}
	}
	return nil
}

// Without returns the topology as it is when these CPUs go offline. The machine must
// keep one.
func (t *Topology) Without(cpus cpuset.Set) *Topology {
	w := &Topology{Possible: t.Possible, Present: t.Present, Online: t.Online.Difference(cpus), Isolated: t.Isolated, NohzFull: t.NohzFull,
		Nodes: slices.Clone(t.Nodes), Warnings: t.Warnings}
	cores, l3s, dies, packages := newGrouping[int](), newGrouping[int](), newGrouping[int](), newGrouping[int]()
	for _, c := range t.CPUs {
		if cpus.Contains(c.ID) {
			continue
		}
		c.Die = dies.add(c.ID, c.Die, t.Dies[c.Die].ID)
		c.Package = packages.add(c.ID, c.Package, t.Packages[c.Package].ID)
		c.Core, c.L3 = cores.add(c.ID, c.Core, c.ID), l3s.add(c.ID, c.L3, c.ID)
		w.CPUs = append(w.CPUs, c)
	}
	w.Cores, w.L3s, w.Dies, w.Packages = cores.groups(), l3s.groups(), dies.groups(), packages.groups()
	for i := range w.Nodes {
		w.Nodes[i].CPUs = w.Nodes[i].CPUs.Difference(cpus)
	}
	return w
}

// grouping collects CPUs under keys. Groups are numbered in the order in which
// their keys appear, which is the order of their lowest CPUs when the CPUs are
// added in ascending order.
type grouping[K comparable] struct {
	index   map[K]int
	ids     []int
	members [][]int
}

func newGrouping[K comparable]() *grouping[K] {
	return &grouping[K]{index: make(map[K]int)}
}

// add puts cpu under key and returns the number of its group. The first call for a
// key decides the group's ID.
func (g *grouping[K]) add(cpu int, key K, id int) int {
	i, ok := g.index[key]
	if !ok {
		i = len(g.ids)
		g.index[key] = i
		g.ids = append(g.ids, id)
		g.members = append(g.members, nil)
	}
	g.members[i] = append(g.members[i], cpu)
	return i
}

func (g *grouping[K]) groups() []Group {
	groups := make([]Group, len(g.ids))
	for i, id := range g.ids {
		groups[i] = Group{ID: id, CPUs: cpuset.Of(g.members[i]...)}
	}
	return groups
}
