package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestPlanApp checks that App finds the placement in the plan itself, and no pause container.
func TestPlanApp(t *testing.T) {
	plan := &pools.Plan{Pods: []pools.PodPlan{
		{UID: "a", Containers: []pools.Placement{{ID: "pause", Kind: pools.Infra}, {ID: "one", Kind: pools.App}}},
		{UID: "b", Containers: []pools.Placement{{ID: "two", Kind: pools.App}}},
	}}
	for id, want := range map[string]*pools.Placement{
		"one": &plan.Pods[0].Containers[1], "two": &plan.Pods[1].Containers[0], "pause": nil, "none": nil,
	} {
		pod, got := plan.App(id)
		if got != want || (pod != nil) != (want != nil) {
			t.Errorf("App(%q) = %p, %p; want %p", id, pod, got, want)
		}
		if pod != nil && pod.App(id) != want {
			t.Errorf("the pod of %q does not contain it", id)
		}
	}
}
