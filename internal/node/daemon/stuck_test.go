package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestStuckPartition checks that an exclusive list which the kernel does not let the daemon
// change hinders no other partition, and is corrected as soon as the kernel allows it.
func TestStuckPartition(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			r := n.start()
			first := n.RunContainer(n.RunPod("a", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			n.AwaitPartition(first, cgroup.RootPartition)
			// The list of pods can neither shrink nor grow.
			end := n.RefuseWrites("kubepods.slice", cgroup.FileExclusive)
			if err := n.Runtime.StopPod(n.PodOf(first)); err != nil {
				t.Fatal(err)
			}
			r.view("stuck", func(v *telemetry.View) bool { return v.Problems["StuckPartition"] == 1 })
			second := n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			n.AwaitPartition(second, cgroup.RootPartition) // on the CPU that is still in the list
			n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			third := n.RunContainer(n.RunPod("c", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			r.view("pinned, and no partition", func(v *telemetry.View) bool {
				return modes(v)["c"] == "cpuset" && modes(v)["b"] == "partition-root" && v.Problems["NoPartition"] == 1
			})
			n.CheckOccupants()
			end()
			n.AwaitPartition(third, cgroup.RootPartition)
			if err := n.Runtime.StopPod(n.PodOf(second)); err != nil {
				t.Fatal(err)
			}
			own := n.State(third).CPUs.String()
			n.Eventually("lists of the rest alone", func() bool { return n.ExclusiveLists()["kubepods.slice"] == own })
			r.view("nothing stuck", func(v *telemetry.View) bool {
				return v.Problems["StuckPartition"] == 0 && v.Problems["NoPartition"] == 0
			})
			n.CheckKernel()
		})
	}
}
