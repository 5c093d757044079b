package defrag_test

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// machine counts per unit of the previous field. Siblings have adjacent numbers.
type machine struct{ packages, nodes, l3s, cores, threads int }

func (m machine) cpus() int { return m.packages * m.nodes * m.l3s * m.cores * m.threads }

func (m machine) topology() *topology.Topology {
	return hardware.Machine{Packages: m.packages, Nodes: m.nodes, L3s: m.l3s, Cores: m.cores, Threads: m.threads, Adjacent: true}.Topology()
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
