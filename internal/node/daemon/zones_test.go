package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestClusterTopology checks the free CPUs per zone, and that the object has the pods that run.
func TestClusterTopology(t *testing.T) {
	n := newNode(t)
	n.YAML += "node: {topology: true}\n"
	n.RunContainer(n.RunPod("du", "ran", "guaranteed", 2, nil), "cell", nodefixture.WholeCPUs(2))
	n.RunContainer(n.RunPod("web", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.RunPod("pending", "default", "burstable", 0, nil) // has no container yet
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 2 })
	distances := []map[int]int{{0: 10, 1: 21}, {0: 21, 1: 10}}
	want := &nodestatus.Topology{
		Policy: "best-effort",
		Zones: []nodestatus.Zone{
			{ID: 0, Distances: distances[0], Resources: map[string]nodestatus.ZoneAmounts{"cpu": {Capacity: 4000, Allocatable: 2000, Available: 2000}, guaranteedCPUs: {}}},
			{ID: 1, Distances: distances[1], Resources: map[string]nodestatus.ZoneAmounts{
				"cpu":          {Capacity: 4000, Allocatable: 4000, Available: 2000},
				guaranteedCPUs: {Capacity: 4000, Allocatable: 4000, Available: 2000},
			}},
		},
		Pods: []nodestatus.PodName{{Namespace: "ran", Name: "du"}, {Namespace: "default", Name: "web"}},
	}
	if diff := cmp.Diff(want, r.shown().Topology); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}
