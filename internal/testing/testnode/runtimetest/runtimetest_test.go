package runtimetest_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/runtimetest"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func TestFakeRuntime(t *testing.T) {
	t.Parallel()
	for _, flavor := range []testnode.Flavor{testnode.Containerd, testnode.CRIO} {
		for _, driver := range []cri.Driver{cri.Systemd, cri.Cgroupfs} {
			t.Run(fmt.Sprintf("%s/%s", flavor, driver), func(t *testing.T) {
				t.Parallel()
				tree := testnode.NewCgroups(testnode.CgroupConfig{Possible: cpuset.Range(0, 7), Nodes: cpuset.Of(0, 1)})
				r := testnode.StartRuntime(t, testnode.RuntimeConfig{
					Flavor: flavor, Driver: driver, Tree: tree.ForRuntime(), Units: testnode.NewUnits(tree), NRI: true,
				})
				client, err := cri.Dial(r.Endpoint(), func(string) bool { return true })
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = client.Close() })
				runtimetest.Run(t, runtimetest.Node{
					Runtime: r, Client: client, Cgroups: cgroup.New(tree), Driver: cgroup.Driver(driver),
					CgroupAtCreate: flavor == testnode.CRIO, UpdatesExited: flavor == testnode.Containerd,
					StopsCreated: flavor == testnode.CRIO, QuietSandboxes: flavor == testnode.CRIO,
					NRISocket: r.NRISocket(), ShowsAdjusted: flavor == testnode.CRIO, StartsRefused: flavor == testnode.CRIO,
				})
			})
		}
	}
}
