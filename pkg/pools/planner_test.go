package pools_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestPlanner checks that a plan equals the plan of Build after every change, and after
// repeated inputs.
func TestPlanner(t *testing.T) {
	in := loadedNode(topologyOf(64), 40)
	var p pools.Planner
	r := rand.New(rand.NewPCG(1, 1))
	for step := range 300 {
		next := in
		next.Pods = append([]pools.Pod(nil), in.Pods...)
		switch i := r.IntN(len(next.Pods)); r.IntN(4) {
		case 0:
			next.Pods[i].Gone = !next.Pods[i].Gone
		case 1:
			next.Pods[i].Containers = append([]pools.Container(nil), next.Pods[i].Containers...)
			next.Pods[i].Containers[0].State = pools.ContainerState(r.IntN(3))
		case 2:
			next.Pods[i].Annotations = map[string]string{fmt.Sprint(step): "x"}
		}
		got, want := p.Build(next), pools.Build(next)
		if d := cmp.Diff(want, got, cmp.Comparer(cpuset.Set.Equal)); d != "" {
			t.Fatalf("step %d (-want +got):\n%s", step, d)
		}
		in, in.Previous = next, got.Assignments
	}
}

// TestPlannerAllocatesNothing where nothing has changed.
func TestPlannerAllocatesNothing(t *testing.T) {
	a, b := loadedNode(topologyOf(64), 40), loadedNode(topologyOf(64), 40)
	b.Machine = a.Machine
	for i := range b.Pods { // as in the daemon, where a sandbox's annotations are one map
		b.Pods[i].Annotations = a.Pods[i].Annotations
	}
	var p pools.Planner
	p.Build(a)
	if n := testing.AllocsPerRun(100, func() { p.Build(b) }); n > 0 {
		t.Errorf("allocations = %v; want 0", n)
	}
}
