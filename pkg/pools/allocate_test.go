package pools_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// allocationCost returns the costs that the documentation describes, in its order,
// counted in a simple way.
func allocationCost(t *topology.Topology, free, taken cpuset.Set) []int {
	type cell struct{ node, pkg int }
	var parts, broken, distance int
	for _, core := range t.Cores {
		if core.CPUs.Overlaps(taken) && !core.CPUs.IsSubsetOf(taken) {
			parts++
			if core.CPUs.IsSubsetOf(free) {
				broken++
			}
		}
	}
	var nodes, packages []int
	var cells []cell
	for id := range taken.All() {
		cpu, _ := t.CPU(id)
		if !slices.Contains(nodes, cpu.Node) {
			nodes = append(nodes, cpu.Node)
		}
		if !slices.Contains(packages, cpu.Package) {
			packages = append(packages, cpu.Package)
		}
		if c := (cell{cpu.Node, cpu.Package}); !slices.Contains(cells, c) {
			cells = append(cells, c)
		}
	}
	for i, a := range nodes {
		for _, b := range nodes[:i] {
			distance += t.Nodes[a].Distances[b]
		}
	}
	left := 0
	for id := range free.Difference(taken).All() {
		if cpu, _ := t.CPU(id); slices.Contains(cells, cell{cpu.Node, cpu.Package}) {
			left++
		}
	}
	return []int{parts, len(nodes), len(packages), distance, broken, left}
}

// leastCost tries all ways to take n CPUs.
func leastCost(t *topology.Topology, free cpuset.Set, n int) []int {
	ids := slices.Collect(free.All())
	var least []int
	for mask := range 1 << len(ids) {
		if bits.OnesCount(uint(mask)) != n {
			continue
		}
		var taken []int
		for i, id := range ids {
			if mask&(1<<i) != 0 {
				taken = append(taken, id)
			}
		}
		if cost := allocationCost(t, free, cpuset.Of(taken...)); least == nil || slices.Compare(cost, least) < 0 {
			least = cost
		}
	}
	return least
}

// TestAllocationIsBest compares the allocations of random containers, one after
// the other on small machines, with all that would have been possible.
func TestAllocationIsBest(t *testing.T) {
	for _, m := range hardware.Small() {
		if m.L3s > 1 && m.Cores > 1 {
			continue // leastCost knows nothing of caches
		}
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(m.Packages)))
			top := m.Topology()
			for range 60 {
				checkAllocations(t, r, top)
			}
		})
	}
}

func checkAllocations(t *testing.T, r *rand.Rand, top *topology.Topology) {
	t.Helper()
	in := pools.Input{Machine: allocate.New(top)}
	for id := range top.Online.All() {
		if id > 0 && r.IntN(4) > 0 {
			in.Pools.Guaranteed = in.Pools.Guaranteed.Union(cpuset.Of(id))
		}
	}
	in.Pools.Shared = top.Online.Difference(in.Pools.Guaranteed)
	var asked []int
	for i := range 4 {
		asked = append(asked, 1+r.IntN(5))
		in.Pods = append(in.Pods, podOf(i, asked[i]))
	}
	plan := checkedBuild(t, in)
	free := in.Pools.Guaranteed
	for i, p := range plan.Pods {
		c := p.Containers[0]
		if !c.Exclusive {
			if free.Len() >= asked[i] {
				t.Errorf("container %d is refused %d of CPUs %s; want them allocated", i, asked[i], free)
			}
			continue
		}
		want, got := leastCost(top, free, asked[i]), allocationCost(top, free, c.CPUs)
		if c.CPUs.Len() != asked[i] || !slices.Equal(got, want) {
			t.Errorf("%d CPUs of %s: %s costs %v, want %v", asked[i], free, c.CPUs, got, want)
		}
		free = free.Difference(c.CPUs)
	}
}

// podOf is a Guaranteed pod of one container with n whole CPUs.
func podOf(i, n int) pools.Pod {
	r := pools.Resources{Shares: workload.MilliCPUToShares(int64(n) * 1000), Quota: int64(n) * 100000, Period: 100000}
	return pools.Pod{
		UID: fmt.Sprintf("pod-%04d", i), Namespace: "default", Name: fmt.Sprint("p", i), QoS: pools.QoSGuaranteed, Resources: r,
		Containers: []pools.Container{{ID: fmt.Sprint("c", i), Name: "app", State: pools.Running, CreatedAt: int64(i), Resources: r}},
	}
}

// Without an exhaustive search, on more nodes than any machine is known to have,
// an allocation is still complete and made of whole cores.
func TestAllocationOnManyNodes(t *testing.T) {
	top := hardware.Machine{Packages: 40, Nodes: 1, L3s: 1, Cores: 2, Threads: 2}.Topology()
	in := pools.Input{Machine: allocate.New(top), Pools: pools.Pools{Shared: cpuset.Of(0, 80), Guaranteed: top.Online.Difference(cpuset.Of(0, 80))}}
	in.Pods = []pools.Pod{podOf(0, 77), podOf(1, 2), podOf(2, 79)}
	plan := checkedBuild(t, in)
	var got [][]int
	free := in.Pools.Guaranteed
	for _, p := range plan.Pods {
		cost := allocationCost(top, free, p.Containers[0].CPUs)
		got = append(got, []int{p.Containers[0].CPUs.Len(), cost[0], cost[1]})
		free = free.Difference(p.Containers[0].CPUs)
	}
	// 39 nodes have 4 CPUs, one has 2.
	if diff := cmp.Diff([][]int{{77, 1, 20}, {2, 0, 1}, {79, 1, 21}}, got); diff != "" {
		t.Errorf("CPUs, cores in part, nodes: -want +got\n%s", diff)
	}
}
