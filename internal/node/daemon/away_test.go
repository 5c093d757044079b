package daemon

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestAway checks that containers which run keep their CPUs while no daemon runs. The next
// daemon finds and places containers that were created, resized or removed in between.
func TestAway(t *testing.T) {
	for _, c := range []struct {
		name       string
		nri        bool
		partitions bool
	}{{"CRI, cpusets", false, false}, {"NRI, cpusets", true, false}, {"CRI, partitions", false, true}, {"NRI, partitions", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{NRI: c.nri})
			if c.partitions {
				n = newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: c.nri})
				n.YAML = nodefixture.WithPartitions(n.YAML)
			}
			target := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
			r := n.start()
			if c.nri {
				r.connected()
			}
			stays := n.RunContainer(n.RunPod("stays", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			ends := n.RunPod("ends", "default", "guaranteed", 2, nil)
			n.RunContainer(ends, "app", nodefixture.WholeCPUs(2))
			grows := n.RunContainer(n.RunPod("grows", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			shared := n.RunContainer(n.RunPod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			manager := n.RunContainer(n.RunPod("manager", "kube-system", "burstable", 0, target), "app", cri.Resources{Shares: 100})
			n.Eventually("owners are on their own", func() bool {
				return n.State(stays).Effective.Len() == 1 && n.State(grows).Effective.Len() == 1
			})
			n.AwaitCPUs(shared, "2-3")
			n.AwaitCPUs(manager, "0-1")
			r.quiet()
			n.CheckOccupants()
			ran := map[string]cgroup.State{}
			for name, id := range map[string]string{"stays": stays, "shared": shared, "manager": manager} {
				ran[name] = n.State(id)
			}
			as := func(when string) {
				t.Helper()
				for name, id := range map[string]string{"stays": stays, "shared": shared, "manager": manager} {
					is := n.State(id)
					if !is.Effective.Equal(ran[name].Effective) || !is.CPUs.Equal(ran[name].CPUs) || is.Partition != ran[name].Partition {
						t.Errorf("%s: %s has %s, effective %s, partition %+v; had %+v", when, name, is.CPUs, is.Effective, is.Partition, ran[name])
					}
				}
			}
			r.stop()

			if err := n.Runtime.StopPod(ends); err != nil {
				t.Fatal(err)
			}
			if err := n.Runtime.RemovePod(ends); err != nil {
				t.Fatal(err)
			}
			if err := n.Runtime.Resize(grows, nodefixture.WholeCPUs(2)); err != nil {
				t.Fatal(err)
			}
			var kept []string
			for i := range 12 {
				pod := n.RunPod(fmt.Sprintf("come-%d", i), "default", "besteffort", 0, nil)
				id := n.RunContainer(pod, "app", cri.Resources{Shares: 2})
				if i%3 > 0 {
					if err := n.Runtime.StopPod(pod); err != nil {
						t.Fatal(err)
					}
					if err := n.Runtime.RemovePod(pod); err != nil {
						t.Fatal(err)
					}
					continue
				}
				kept = append(kept, id)
				as(fmt.Sprintf("after %d pods without a daemon", i))
			}
			late := n.RunContainer(n.RunPod("late", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
			lateManager := n.RunContainer(n.RunPod("late-manager", "kube-system", "burstable", 0, target), "app", cri.Resources{Shares: 100})

			r = n.start()
			for _, id := range kept {
				n.AwaitCPUs(id, "2-3")
			}
			n.AwaitCPUs(lateManager, "0-1")
			n.Eventually("late has a CPU of its own", func() bool {
				st := n.State(late)
				return st.Effective.Len() == 1 && st.Effective.IsSubsetOf(cpuset.Range(4, 7))
			})
			n.Eventually("grows has two CPUs", func() bool { return n.State(grows).Effective.Len() == 2 })
			if c.partitions {
				n.AwaitPartition(late, cgroup.RootPartition)
			}
			r.view("all are counted", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 4+len(kept)+2 })
			r.quiet()
			as("after the return")
			n.CheckOccupants()
		})
	}
}
