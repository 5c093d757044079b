package conformance_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/conformance"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func TestUnits(t *testing.T) {
	for _, clears := range []bool{false, true} {
		tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 3), Nodes: cpuset.Of(0, 1), ClearPopulated: clears})
		units := testnode.NewUnits(tree)
		conformance.RunUnits(t, units, &memoryInit{tree: tree, units: units}, cgroup.New(tree))
	}
}

type memoryInit struct {
	tree  *testnode.Cgroups
	units *testnode.Units
	pid   int
}

func (i *memoryInit) Scope(t testing.TB, name string) cgroup.Path {
	p := "system.slice/" + name
	i.tree.MkdirAll(p)
	i.pid++
	if err := i.tree.Write(p+"/cgroup.procs", fmt.Sprint(i.pid)); err != nil {
		t.Fatal(err)
	}
	return cgroup.Path(p)
}

func (i *memoryInit) Reload(testing.TB) { i.units.Reload() }

func (i *memoryInit) Install(t testing.TB, unit, allowed string) {
	cpus, err := cpuset.Parse(allowed)
	if err != nil {
		t.Fatal(err)
	}
	i.units.Install(unit, cpus)
}

func (i *memoryInit) Start(t testing.TB, unit string) {
	if err := i.units.Start(unit); err != nil {
		t.Fatal(err)
	}
}

func (i *memoryInit) Stop(t testing.TB, unit string) {
	if err := i.units.Stop(unit); err != nil {
		t.Fatal(err)
	}
}

func TestCgroups(t *testing.T) {
	for name, config := range map[string]testnode.CgroupConfig{
		"6.1":      {IdleWeight: 0},
		"6.12":     {IdleWeight: 1, Partitions: testnode.PartitionsLike(6, 12, 0)},
		"6.12.117": {IdleWeight: 1, Partitions: testnode.PartitionsLike(6, 12, 117)},
		"6.19":     {IdleWeight: 1, Partitions: testnode.PartitionsLike(6, 19, 0)},
		"7.0":      {IdleWeight: 1, ClearPopulated: true, Partitions: testnode.PartitionsLike(7, 0, 0)},
		"7.1":      {IdleWeight: 1, ClearPopulated: true, DropWatches: true, Partitions: testnode.PartitionsLike(7, 1, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			config.Possible, config.Nodes = cpuset.Range(0, 7), cpuset.Of(0, 1)
			conformance.Run(t, &memory{Cgroups: testnode.NewCgroups(config), config: config, online: config.Possible})
		})
	}
}

// memory adapts the fake tree to Kernel.
type memory struct {
	*testnode.Cgroups
	config testnode.CgroupConfig
	online cpuset.Set
	pid    int
}

func (m *memory) Task(t testing.TB, name string) (stop func()) {
	m.pid++
	pid := m.pid
	if err := m.Write(name+"/cgroup.procs", fmt.Sprint(pid)); err != nil {
		t.Fatal(err)
	}
	return func() { m.Exit(pid) }
}

func (m *memory) SetOnline(_ testing.TB, cpu int, online bool) {
	m.online = m.online.Difference(cpuset.Of(cpu))
	if online {
		m.online = m.online.Union(cpuset.Of(cpu))
	}
	m.Cgroups.SetOnline(m.online)
}

func (m *memory) Online(testing.TB) cpuset.Set { return m.Cgroups.Online() }

func (m *memory) Partitions() testnode.PartitionRules { return m.config.Partitions }

func (m *memory) Watches(testing.TB) int { return m.Cgroups.Watches() }

func (m *memory) Possible() cpuset.Set  { return m.config.Possible }
func (m *memory) Nodes() cpuset.Set     { return m.config.Nodes }
func (m *memory) ClearsPopulated() bool { return m.config.ClearPopulated }
func (m *memory) IdleWeight() uint64    { return m.config.IdleWeight }
func (m *memory) Nice() bool            { return false }
