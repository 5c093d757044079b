package desired_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestScopeBeingMade checks that no property of a scope is set while the OCI runtime makes it. Systemd
// and the runtime would both attach the scope's device program, and the container would not start.
func TestScopeBeingMade(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	slice := "kubepods-podu.slice"
	m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", CgroupsPath: slice + ":cri-containerd:c"}})
	placement := pools.Placement{ID: "c", Name: "app", Pool: pools.Guaranteed, CPUs: cpuset.Of(4), Exclusive: true, Unlimited: true, Shares: 512}
	for state, want := range map[pools.ContainerState]cgroup.Target{
		pools.Created: {CPUs: cpuset.Of(4)},
		pools.Running: {CPUs: cpuset.Of(4), Weight: 59, Unlimited: true},
	} {
		placement.State = state
		got, ok := desired.ContainerTarget(&placement, m, config.WeightQuadratic, func(cgroup.Path) bool { return false })
		if !ok || !got.CPUs.Equal(want.CPUs) || got.Weight != want.Weight || got.Unlimited != want.Unlimited {
			t.Errorf("state %v: target = %+v, %v; want %+v", state, got, ok, want)
		}
	}
}
