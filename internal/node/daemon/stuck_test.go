package daemon

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestStuckPartition: what the kernel does not take back of a partition that is over is
// in nobody else's way, and is taken back when the kernel lets it be.
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
			n.AwaitPartition(second, cgroup.RootPartition) // on the CPU that is in the list still
			n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			third := n.RunContainer(n.RunPod("c", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			r.view("pinned, and no partition", func(v *telemetry.View) bool {
				return modes(v)["c"] == "cpuset" && modes(v)["b"] == "partition-root" && v.Problems["NoPartition"] == 1
			})
			n.CheckClaims()
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
			r.stop()

			// restore goes on with the rest, too.
			scope := cgroup.Path(n.Runtime.Cgroup(third))
			end = n.RefuseWrites(scope, cgroup.FilePartition)
			report, err := n.restore()
			if err != nil {
				t.Fatal(err)
			}
			told := false
			for _, d := range report.Differs {
				told = told || d.Path == scope && d.File == cgroup.FilePartition && strings.Contains(d.Reason, "busy")
			}
			if !told {
				t.Errorf("restore does not tell of %s: %+v", scope, report)
			}
			end()
			if report, err = n.restore(); err != nil || len(report.Differs) > 0 || len(n.ExclusiveLists()) > 0 || !n.RootCPUs().Equal(cpuset.Range(0, 7)) {
				t.Errorf("restore once more: %+v, %v; lists %v, root %s", report, err, n.ExclusiveLists(), n.RootCPUs())
			}
			if n.Tree.Crashed() || !n.Tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.Tree.Crashed(), n.Tree.Leaked())
			}
		})
	}
}
