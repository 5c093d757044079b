package machines

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Topology returns the topology that a reader of the machine must return, but for its warnings.
// It is made of the lines of the description alone.
func (m *Machine) Topology() *topology.Topology {
	all := m.online.Union(m.offline)
	t := &topology.Topology{Possible: all, Present: all, Online: m.online, Isolated: m.isolated, NohzFull: m.nohzFull}
	t.Packages = m.groups(m.expected("package", m.packages, []group{{0, m.online}}))
	if anonymous := len(m.books) > 0 || t.Packages[0].ID == unnumbered; anonymous {
		for i := range t.Packages {
			t.Packages[i].ID = i
		}
	}
	t.Dies = m.groups(m.expected("die", m.dies, m.packages))
	if len(m.dies) == 0 && m.want["die"] == nil {
		t.Dies = slices.Clone(t.Packages)
		for i := range t.Dies {
			t.Dies[i].ID = unnumbered
		}
	}
	t.Cores = byLowest(m.groups(m.expected("core", m.cores, nil)))
	for cpu := range m.online.Difference(sets(t.Cores)).All() {
		t.Cores = append(t.Cores, topology.Group{ID: cpu, CPUs: cpuset.Of(cpu)})
	}
	t.Cores = inOrder(t.Cores)
	t.L3s = byLowest(m.groups(m.expected("cache", m.lastLevel(), nil)))
	t.Nodes = m.topologyNodes()
	for cpu := range m.online.All() {
		t.CPUs = append(t.CPUs, topology.CPU{ID: cpu, Core: position(t.Cores, cpu), L3: position(t.L3s, cpu), Die: position(t.Dies, cpu), Package: position(t.Packages, cpu),
			Node: slices.IndexFunc(t.Nodes, func(n topology.Node) bool { return n.CPUs.Contains(cpu) }), Kind: m.kind(cpu), Capacity: m.of(m.capacities, cpu, cpuset.Set{}).number})
	}
	return t
}

// expected returns the groups of a want line, else the machine's groups, else other ones.
func (m *Machine) expected(key string, groups, other []group) []group {
	switch {
	case m.want[key] != nil:
		return m.want[key]
	case len(groups) > 0:
		return groups
	}
	return other
}

// lastLevel returns the caches with the CPUs that have no cache of a higher level.
func (m *Machine) lastLevel() []group {
	var last []group
	for _, c := range m.caches {
		higher := union(slices.DeleteFunc(slices.Clone(m.caches), func(other group) bool { return other.number <= c.number }))
		if c.cpus = c.cpus.Difference(higher); !c.cpus.IsEmpty() {
			last = append(last, c)
		}
	}
	return last
}

func (m *Machine) topologyNodes() []topology.Node {
	nodes := sorted(m.expected("node", m.nodes, []group{{0, m.online}}))
	out := make([]topology.Node, len(nodes))
	for i, n := range nodes {
		out[i] = topology.Node{ID: n.number, CPUs: n.cpus.Intersection(m.online), Distances: m.row(i), HasMemory: !m.noMemory.Contains(n.number)}
	}
	return out
}

func (m *Machine) kind(cpu int) topology.CoreKind {
	switch {
	case m.performance.Contains(cpu):
		return topology.Performance
	case m.efficiency.Contains(cpu):
		return topology.Efficiency
	}
	return topology.Unknown
}

// groups returns the groups that have online CPUs, in the order of their lowest CPUs.
func (m *Machine) groups(groups []group) []topology.Group {
	var out []topology.Group
	for _, g := range groups {
		if cpus := g.cpus.Intersection(m.online); !cpus.IsEmpty() {
			out = append(out, topology.Group{ID: g.number, CPUs: cpus})
		}
	}
	return inOrder(out)
}

func inOrder(groups []topology.Group) []topology.Group {
	slices.SortFunc(groups, func(a, b topology.Group) int { return cmp.Compare(a.CPUs.First(), b.CPUs.First()) })
	return groups
}

// byLowest gives groups the numbers of their lowest CPUs.
func byLowest(groups []topology.Group) []topology.Group {
	for i := range groups {
		groups[i].ID = groups[i].CPUs.First()
	}
	return groups
}

func sets(groups []topology.Group) cpuset.Set {
	var all cpuset.Set
	for _, g := range groups {
		all = all.Union(g.CPUs)
	}
	return all
}

func position(groups []topology.Group, cpu int) int {
	return slices.IndexFunc(groups, func(g topology.Group) bool { return g.CPUs.Contains(cpu) })
}
