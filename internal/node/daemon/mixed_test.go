package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestCreateMixed checks that the reply has both kinds of CPUs, and names each kind.
func TestCreateMixed(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithMixed(nodefixture.CarvedYAML, "shared")
	r := n.start()
	a := r.asker()
	pod := ofPod("m", "default", "guaranteed", 2, nodefixture.MixedAnnotations())
	reply := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2)))
	want := map[string]string{
		"CPUPOOL_CPUS": "2-3", "CPUPOOL_POOL": "guaranteed", "CPUPOOL_EXCLUSIVE": "true", "CPUPOOL_NODES": "0", "CPUPOOL_SHARED_CPUS": "4-7",
		"CPUPOOL_MIXED_CPUS": "4-7", "OPENSHIFT_ISOLATED_CPUS": "2-3", "OPENSHIFT_SHARED_CPUS": "4-7",
	}
	if d := cmp.Diff(want, reply.Adjustment.Env); d != "" || reply.Adjustment.CPUs.String() != "2-7" || !reply.Adjustment.Unlimited {
		t.Errorf("answer %+v; environment (-want +got):\n%s", reply.Adjustment, d)
	}
}

// TestMixedGivesWay checks that a container leaves shared CPUs before another owner gets them.
func TestMixedGivesWay(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithMixed(nodefixture.CarvedYAML, "shared")
	r := n.start()
	id := n.RunContainer(n.RunPod("m", "default", "guaranteed", 2, nodefixture.MixedAnnotations()), "app", nodefixture.WholeCPUs(2))
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	has := func(cpus string) {
		t.Helper()
		n.AwaitCPUs(id, cpus)
		n.Eventually("recorded "+cpus, func() bool {
			c, err := n.Client.ContainerStatus(t.Context(), id)
			return err == nil && c.Recorded.CPUs == cpus
		})
	}
	has("2-7")
	n.AwaitCPUs(shared, "4-7")
	n.Eventually("no quota", func() bool { return n.State(id).Quota == -1 })
	later := n.RunContainer(n.RunPod("l", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(later, "4-5")
	has("2-3,6-7")
	n.AwaitCPUs(shared, "6-7")
	r.view("one that runs is mixed", func(v *telemetry.View) bool { return v.Mixed == 1 && v.Problems["NoPartition"] == 0 })
}

// TestMixedOnCRIO checks that OPENSHIFT_SHARED_CPUS has no CPUs that can become exclusive:
// CRI-O adds them in each update.
func TestMixedOnCRIO(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, want string
		told       bool
	}{
		"carved": {yaml: nodefixture.WithMixed(nodefixture.CarvedYAML, "shared")},
		"list":   {yaml: nodefixture.WithMixed(nodefixture.CarvedYAML, "6-7"), want: "6-7", told: true},
		"fixed":  {yaml: nodefixture.WithMixed(nodefixture.PoolsYAML, "shared"), want: "2-3", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCRIONode(t, false, managers.CRIO{})
			n.YAML = c.yaml
			a := n.start().asker()
			pod := ofPod("m", "default", "guaranteed", 2, nodefixture.MixedAnnotations())
			env := a.mustCreate(pod, a.container(pod, "app", nodefixture.WholeCPUs(2))).Adjustment.Env
			if got, told := env["OPENSHIFT_SHARED_CPUS"]; got != c.want || told != c.told || env["CPUPOOL_MIXED_CPUS"] == "" {
				t.Errorf("environment %v; want OPENSHIFT_SHARED_CPUS=%q", env, c.want)
			}
		})
	}
}

// TestMixedIsNoPartition checks that an owner with shared CPUs is no partition, with a reason,
// and that other containers of its pod are partitions. Without shared CPUs it becomes a
// partition.
func TestMixedIsNoPartition(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			plain := nodefixture.WithPartitions(n.YAML)
			n.YAML = nodefixture.WithMixed(plain, "shared")
			r := n.start()
			pod := n.RunPod("m", "default", "guaranteed", 3, nodefixture.MixedAnnotations())
			app, side := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2)), n.RunContainer(pod, "side", nodefixture.WholeCPUs(1))
			n.AwaitPartition(side, cgroup.RootPartition)
			n.AwaitCPUs(app, "2-5")
			r.quiet()
			if st := n.State(app); !st.Partition.Is(cgroup.MemberPartition) {
				t.Errorf("a container that shares CPUs is a partition: %s", st.Partition)
			}
			r.view("a problem of one", func(v *telemetry.View) bool { return v.Problems["NoPartition"] == 1 && v.Partitions["root"] == 1 })
			for _, o := range n.preview().Owners {
				if shares := o.Name == "app"; shares != strings.Contains(o.Why, "also runs on the shared CPUs") {
					t.Errorf("plan says of %s: %q", o.Name, o.Why)
				}
			}
			r.stop()
			n.YAML = plain
			r = n.start()
			n.AwaitPartition(app, cgroup.RootPartition)
			n.AwaitCPUs(app, "4-5")
			r.stop()
			n.YAML = nodefixture.WithMixed(plain, "shared")
			r = n.start() // the partition ends, and the container gets shared CPUs
			n.AwaitCPUs(app, "2-5")
			n.AwaitPartition(side, cgroup.RootPartition)
			r.quiet()
			if n.Tree.Crashed() || !n.Tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.Tree.Crashed(), n.Tree.Leaked())
			}
		})
	}
}

// TestMixedFollowsThePool checks shared CPUs after resizes, while CPUs are offline, and after a
// restart without a journal.
func TestMixedFollowsThePool(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.WithMixed(nodefixture.CarvedYAML, "shared") + "infraContainers: management\n"
	r := n.start()
	shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(shared, "2-7")
	pod := n.RunPod("m", "default", "guaranteed", 2, nodefixture.MixedAnnotations())
	app := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(app, "2-7")
	n.AwaitCPUs(shared, "4-7")
	n.AwaitCPUs(pod, "0-1")
	r.quiet()
	r.stop()
	if err := os.Remove(filepath.Join(n.Dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	writes := len(n.Tree.Writes())
	r = n.start()
	r.quiet()
	if more := n.Tree.Writes()[writes:]; len(more) > 0 {
		t.Errorf("a daemon that starts without a journal writes %v", more)
	}
	late := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("CPUs of the late one", func() bool { return n.State(late).Effective.Len() == 2 })
	r.quiet()
	took := n.State(late).Effective
	rest := cpuset.Range(4, 7).Difference(took)
	n.AwaitCPUs(shared, rest.String())
	n.AwaitCPUs(app, cpuset.Range(2, 3).Union(rest).String())
	r.stop()
}
