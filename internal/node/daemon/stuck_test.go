package daemon

import (
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// bar has the kernel refuse every write to a file of a cgroup, and returns what ends that.
func (n *node) bar(p cgroup.Path, file string) (end func()) {
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		if w.Name == path.Join(string(p), file) {
			return syscall.EBUSY
		}
		return nil
	})
	return func() { n.tree.Intercept(nil) }
}

// TestStuckPartition: what the kernel does not take back of a partition that is over is
// in nobody else's way, and is taken back when the kernel lets it be.
func TestStuckPartition(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.yaml = isolating(n.yaml)
			r := n.start()
			first := n.container(n.pod("a", "default", "guaranteed", 1, nil), "app", whole(1))
			n.isPartition(first, cgroup.RootPartition)
			// The list of pods can neither shrink nor grow.
			end := n.bar("kubepods.slice", cgroup.FileExclusive)
			if err := n.runtime.StopPod(n.podOf(first)); err != nil {
				t.Fatal(err)
			}
			r.view("stuck", func(v *telemetry.View) bool { return v.Problems["StuckPartition"] == 1 })
			second := n.container(n.pod("b", "default", "guaranteed", 1, nil), "app", whole(1))
			n.isPartition(second, cgroup.RootPartition) // on the CPU that is in the list still
			n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			third := n.container(n.pod("c", "default", "guaranteed", 2, nil), "app", whole(2))
			r.view("pinned, and no partition", func(v *telemetry.View) bool {
				return modes(v)["c"] == "cpuset" && modes(v)["b"] == "partition-root" && v.Problems["NoPartition"] == 1
			})
			n.check()
			end()
			n.isPartition(third, cgroup.RootPartition)
			if err := n.runtime.StopPod(n.podOf(second)); err != nil {
				t.Fatal(err)
			}
			own := n.state(third).CPUs.String()
			n.eventually("lists of the rest alone", func() bool { return n.lists()["kubepods.slice"] == own })
			r.view("nothing stuck", func(v *telemetry.View) bool {
				return v.Problems["StuckPartition"] == 0 && v.Problems["NoPartition"] == 0
			})
			r.stop()

			// restore goes on with the rest, too.
			scope := cgroup.Path(n.runtime.Cgroup(third))
			end = n.bar(scope, cgroup.FilePartition)
			h := n.host()
			report, err := restore.HostRestore(&h, t.Context(), n.journal())
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
			if report, err = restore.HostRestore(&h, t.Context(), n.journal()); err != nil || len(report.Differs) > 0 || len(n.lists()) > 0 || !n.root().Equal(cpuset.Range(0, 7)) {
				t.Errorf("restore once more: %+v, %v; lists %v, root %s", report, err, n.lists(), n.root())
			}
			if n.tree.Crashed() || !n.tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.tree.Crashed(), n.tree.Leaked())
			}
		})
	}
}
