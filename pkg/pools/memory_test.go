package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/pooltext"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestMemoryOfFakeNodes checks a machine with numa=fake: the first node has the CPUs, and the
// others have memory at the same distance. Owners may use the memory of all these nodes.
func TestMemoryOfFakeNodes(t *testing.T) {
	var places []topology.Place
	for id := range 4 {
		places = append(places, topology.Place{ID: id, Core: id, L3: -1, Die: -1})
	}
	fake := []topology.Node{
		{ID: 0, Distances: []int{10, 10, 20}, HasMemory: true},
		{ID: 1, Distances: []int{10, 10, 20}, HasMemory: true},
		{ID: 2, Distances: []int{20, 20, 10}, HasMemory: true}, // farther: CXL
	}
	top, err := topology.Assemble(places, fake)
	if err != nil {
		t.Fatal(err)
	}
	in := pools.Input{Machine: allocate.New(top)}
	in.Pools = must(must(pooltext.Parse("management 0 kube-system\nshared 1\nguaranteed 2-3 bind-memory=true\n"))(t).Resolve(top))(t)
	in.Pods = must(parsePods("pod a default/a Guaranteed cpu=1\napp c1 running 1 cpu=1\n"))(t)
	plan := checkedBuild(t, in)
	if got, want := plan.Pods[0].Containers[0].Mems, cpuset.Of(0, 1); !got.Equal(want) {
		t.Errorf("the owner has the memory of nodes %s; want %s", got, want)
	}
}
