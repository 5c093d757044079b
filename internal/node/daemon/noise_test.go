package daemon

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestWhatOwnersHave checks that log and metrics contain the modes of owners that are
// partitions, and the kernel arguments that the machine lacks.
func TestWhatOwnersHave(t *testing.T) {
	n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	n.Boot = noise.BootFacts{Boot: noise.Boot{ManagedIRQ: cpuset.Range(4, 7)}}
	n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	off := n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, map[string]string{"cpu-load-balancing.workload.openshift.io/du": "disable"}), "du", nodefixture.WholeCPUs(1))
	n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "shared", cri.Resources{Shares: 512})

	r := n.start()
	n.AwaitPartition(off, cgroup.IsolatedPartition)
	r.quiet()
	r.view("noise", func(v *telemetry.View) bool {
		noises := make(map[string]map[string]int)
		for _, c := range v.Containers {
			if c.Noise != nil {
				noises[c.Name] = c.Noise
			}
		}
		return cmp.Equal(noises, map[string]map[string]int{
			"app": {"balancing": 2, "tick": 2, "rcu": 2, "managed_irq": 0},
			"du":  {"balancing": 0, "tick": 1, "rcu": 1, "managed_irq": 0},
		})
	})
	said := make(map[any]string)
	for _, rec := range n.Logged("exclusive CPUs") {
		said[rec["container"]] += rec["kept_by"].(string) + " " + rec["balancing"].(string) + " "
	}
	if d := cmp.Diff(map[any]string{"app": "partition-root own ", "du": "partition-isolated off "}, said); d != "" {
		t.Errorf("in the log (-want +got):\n%s", d)
	}
	if args := n.Logged("kernel arguments that exclusive CPUs lack"); len(args) != 1 || args[0]["arguments"] != "nohz_full=4-7 rcu_nocbs=4-7" {
		t.Errorf("arguments in the log: %v", args)
	}
}
