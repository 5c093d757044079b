package topology

import "github.com/cpupoold/cpupoold/pkg/cpuset"

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
