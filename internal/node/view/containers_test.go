package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestRequested checks that only containers of a management pool have the request of their shares,
// and that the least shares are no request.
func TestRequested(t *testing.T) {
	n := nodeOf(t, nodefixture.PoolsYAML, pools.Plan{Pods: []pools.PodPlan{{Containers: []pools.Placement{
		{ID: "quarter", Pool: pools.Management, Shares: 256},
		{ID: "none", Pool: pools.Management, Shares: 2},
		{ID: "unknown", Pool: pools.Management},
		{ID: "shared", Pool: pools.Shared, Shares: 1024},
	}}}})
	all, _ := n.Containers(map[string]cgroup.Path{}, nil)
	got := map[string]float64{}
	for i := range all {
		got[all[i].ID] = all[i].Requested
	}
	if d := cmp.Diff(map[string]float64{"quarter": 0.25, "none": 0, "unknown": 0, "shared": 0}, got); d != "" {
		t.Errorf("requested CPUs (-want +got):\n%s", d)
	}
}
