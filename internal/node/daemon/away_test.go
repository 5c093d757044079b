package daemon

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestAway: while there is no daemon, containers of every kind come, go and are resized.
// Who ran stays where it was, and who came is found and placed when a daemon is back.
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
				n.yaml = isolating(n.yaml)
			}
			target := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
			r := n.start()
			if c.nri {
				r.connected()
			}
			stays := n.container(n.pod("stays", "default", "guaranteed", 1, nil), "app", whole(1))
			ends := n.pod("ends", "default", "guaranteed", 2, nil)
			n.container(ends, "app", whole(2))
			grows := n.container(n.pod("grows", "default", "guaranteed", 1, nil), "app", whole(1))
			shared := n.container(n.pod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			manager := n.container(n.pod("manager", "kube-system", "burstable", 0, target), "app", cri.Resources{Shares: 100})
			n.eventually("owners are on their own", func() bool {
				return n.state(stays).Effective.Len() == 1 && n.state(grows).Effective.Len() == 1
			})
			n.runsOn(shared, "2-3")
			n.runsOn(manager, "0-1")
			r.quiet()
			n.check()
			ran := map[string]cgroup.State{}
			for name, id := range map[string]string{"stays": stays, "shared": shared, "manager": manager} {
				ran[name] = n.state(id)
			}
			as := func(when string) {
				t.Helper()
				for name, id := range map[string]string{"stays": stays, "shared": shared, "manager": manager} {
					is := n.state(id)
					if !is.Effective.Equal(ran[name].Effective) || !is.CPUs.Equal(ran[name].CPUs) || is.Partition != ran[name].Partition {
						t.Errorf("%s: %s has %s, effective %s, partition %+v; had %+v", when, name, is.CPUs, is.Effective, is.Partition, ran[name])
					}
				}
			}
			r.stop()

			if err := n.runtime.StopPod(ends); err != nil {
				t.Fatal(err)
			}
			if err := n.runtime.RemovePod(ends); err != nil {
				t.Fatal(err)
			}
			if err := n.runtime.Resize(grows, whole(2)); err != nil {
				t.Fatal(err)
			}
			var kept []string
			for i := range 12 {
				pod := n.pod(fmt.Sprintf("come-%d", i), "default", "besteffort", 0, nil)
				id := n.container(pod, "app", cri.Resources{Shares: 2})
				if i%3 > 0 {
					if err := n.runtime.StopPod(pod); err != nil {
						t.Fatal(err)
					}
					if err := n.runtime.RemovePod(pod); err != nil {
						t.Fatal(err)
					}
					continue
				}
				kept = append(kept, id)
				as(fmt.Sprintf("after %d pods without a daemon", i))
			}
			late := n.container(n.pod("late", "default", "guaranteed", 1, nil), "app", whole(1))
			lateManager := n.container(n.pod("late-manager", "kube-system", "burstable", 0, target), "app", cri.Resources{Shares: 100})

			r = n.start()
			for _, id := range kept {
				n.runsOn(id, "2-3")
			}
			n.runsOn(lateManager, "0-1")
			n.eventually("late has a CPU of its own", func() bool {
				st := n.state(late)
				return st.Effective.Len() == 1 && st.Effective.IsSubsetOf(cpuset.Range(4, 7))
			})
			n.eventually("grows has two CPUs", func() bool { return n.state(grows).Effective.Len() == 2 })
			if c.partitions {
				n.isPartition(late, cgroup.RootPartition)
			}
			r.view("all are counted", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 4+len(kept)+2 })
			r.quiet()
			as("after the return")
			n.check()
		})
	}
}
