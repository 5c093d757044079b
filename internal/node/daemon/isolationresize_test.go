package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestResizeOfPartitions resizes two owners and a sidecar of one pod in turn, also while one of
// their CPUs is offline. No other container moves, no partition has CPUs of two owners, and the
// kernel loses none.
func TestResizeOfPartitions(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		for pool, yaml := range map[string]string{"fixed": nodefixture.PoolsYAML, "carved": nodefixture.CarvedYAML} {
			t.Run(name+" "+pool, func(t *testing.T) {
				n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{NRI: true})
				n.YAML = nodefixture.WithPartitions(yaml)
				r := n.start()
				r.connected()
				pod := n.RunPodOf("a", "default", "guaranteed", nodefixture.MilliCPUs(2500), nil)
				one, two := n.RunContainer(pod, "one", nodefixture.WholeCPUs(1)), n.RunContainer(pod, "two", nodefixture.WholeCPUs(1))
				n.RunContainer(pod, "side", nodefixture.MilliCPUs(500))
				n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
				sizes := map[string]int{one: 1, two: 1}
				settled := func(what string) {
					t.Helper()
					for id, size := range sizes {
						n.Eventually(what, func() bool {
							st := n.State(id)
							if size == 0 {
								return st.Partition.Is(cgroup.MemberPartition) && st.CPUs.Len() > 0 && st.Quota > 0
							}
							return st.Partition.Is(cgroup.RootPartition) && st.CPUs.Len() == size && st.Effective.Equal(st.CPUs) && !n.RootCPUs().Overlaps(st.CPUs)
						})
					}
					r.quiet()
					n.CheckAssigned()
					if leaked := n.Tree.Leaked(); !leaked.IsEmpty() || n.Tree.Crashed() {
						t.Fatalf("%s: leaked %s, crashed %t", what, leaked, n.Tree.Crashed())
					}
				}
				settled("made")
				resize := func(what, id string, to cri.Resources, size int) {
					t.Helper()
					if err := n.Runtime.Resize(id, to); err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					sizes[id] = size
					settled(what)
				}
				resize("grows", one, nodefixture.WholeCPUs(2), 2)
				resize("the other grows", two, nodefixture.WholeCPUs(2), 2)
				resize("shrinks", one, nodefixture.WholeCPUs(1), 1)
				resize("a fraction", two, nodefixture.MilliCPUs(1500), 0)
				resize("the rest", one, nodefixture.WholeCPUs(3), 3)
				resize("whole again", one, nodefixture.WholeCPUs(2), 2)
				resize("and the other", two, nodefixture.WholeCPUs(2), 2)
				plug := func(cpus cpuset.Set, offline int) {
					t.Helper()
					n.SetOnline(cpus)
					r.view("the daemon has heard of it", func(v *telemetry.View) bool { return v.Offline.Len() == offline })
				}
				plug(nodefixture.AllCPUsBut(n.State(one).CPUs.Last()), 1)
				delete(sizes, one) // either the same CPU or another free one
				settled("a CPU is offline")
				if err := n.Runtime.Resize(two, nodefixture.WholeCPUs(1)); err != nil {
					t.Fatal(err)
				}
				sizes[two], sizes[one] = 1, 2 // the CPU of one is free now
				settled("makes room")
				plug(nodefixture.AllCPUsBut(), 0)
				settled("back")
				r.view("no problem", func(v *telemetry.View) bool { return len(v.Problems) == 0 })
			})
		}
	}
}
