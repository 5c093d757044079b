package defrag_test

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine counts per unit of the one before. Siblings have adjacent numbers.
type machine struct{ packages, nodes, l3s, cores, threads int }

func (m machine) cpus() int { return m.packages * m.nodes * m.l3s * m.cores * m.threads }

func (m machine) topology() *topology.Topology {
	all := cpuset.Range(0, m.cpus()-1)
	t := &topology.Topology{Possible: all, Present: all, Online: all}
	cut := func(size int) []topology.Group {
		var groups []topology.Group
		for first := 0; first < m.cpus(); first += size {
			groups = append(groups, topology.Group{ID: first, CPUs: cpuset.Range(first, first+size-1)})
		}
		return groups
	}
	core := m.threads
	l3 := core * m.cores
	node := l3 * m.l3s
	pkg := node * m.nodes
	t.Cores, t.L3s, t.Packages = cut(core), cut(l3), cut(pkg)
	t.Dies = t.Packages
	for i, g := range cut(node) {
		t.Nodes = append(t.Nodes, topology.Node{ID: i, CPUs: g.CPUs, HasMemory: true})
		for j := range m.packages * m.nodes {
			t.Nodes[i].Distances = append(t.Nodes[i].Distances, 10+11*min(1, max(i-j, j-i)))
		}
	}
	for id := range m.cpus() {
		t.CPUs = append(t.CPUs, topology.CPU{
			ID: id, Core: id / core, L3: id / l3, Die: id / pkg, Package: id / pkg, Node: id / node,
		})
	}
	return t
}

// scene is an input in the making.
type scene struct {
	defrag.Input
	topology *topology.Topology
}

func newScene(m machine, pool string) *scene {
	t := m.topology()
	return &scene{topology: t, Input: defrag.Input{Machine: allocate.New(t), Pool: set(pool)}}
}

// isolated gives a scene CPUs 6 and 7 that the kernel isolates.
func isolated(s *scene) *scene {
	s.topology.Isolated = set("6-7")
	s.Machine = allocate.New(s.topology)
	return s
}

// owner adds an owner that can be moved.
func (s *scene) owner(cpus string, change ...func(*pools.Owner)) *scene {
	o := pools.Owner{Key: pools.Key{PodUID: fmt.Sprintf("uid-%02d", len(s.Owners)), Container: "app"}, Pod: fmt.Sprintf("default/%c", 'a'+len(s.Owners)%26), CPUs: set(cpus)}
	for _, c := range change {
		c(&o)
	}
	s.Owners = append(s.Owners, o)
	return s
}

func fixed(o *pools.Owner) { o.Fixed = "has exited" }

func near(nodes string) func(*pools.Owner) {
	return func(o *pools.Owner) { o.Nodes = set(nodes) }
}

func with(options allocate.Options) func(*pools.Owner) {
	return func(o *pools.Owner) { o.Options = options }
}

func set(list string) cpuset.Set {
	s, err := cpuset.Parse(list)
	if err != nil {
		panic(err)
	}
	return s
}
