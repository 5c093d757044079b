package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// mixing adds shared CPUs beside those of owners to a configuration.
func mixing(yaml, cpus string) string {
	return strings.Replace(yaml, "guaranteed:\n", "guaranteed:\n  mixed: {cpus: \""+cpus+"\", namespaces: [default]}\n", 1)
}

// mixed asks for them, for the container app.
func mixed() map[string]string { return map[string]string{"cpu-shared.crio.io/app": "enable"} }

// TestCreateMixed: the answer has both kinds of CPUs, and says which are which.
func TestCreateMixed(t *testing.T) {
	n := newNode(t)
	n.yaml = mixing(carvedYAML, "shared")
	r := n.start()
	a := r.asker()
	pod := ofPod("m", "default", "guaranteed", 2, mixed())
	reply := a.mustCreate(pod, a.container(pod, "app", whole(2)))
	want := map[string]string{
		"CPUPOOL_CPUS": "2-3", "CPUPOOL_POOL": "guaranteed", "CPUPOOL_EXCLUSIVE": "true", "CPUPOOL_NODES": "0", "CPUPOOL_SHARED_CPUS": "4-7",
		"CPUPOOL_MIXED_CPUS": "4-7", "OPENSHIFT_ISOLATED_CPUS": "2-3", "OPENSHIFT_SHARED_CPUS": "4-7",
	}
	if d := cmp.Diff(want, reply.Adjustment.Env); d != "" || reply.Adjustment.CPUs.String() != "2-7" || !reply.Adjustment.Unlimited {
		t.Errorf("answer %+v; environment (-want +got):\n%s", reply.Adjustment, d)
	}
}

// TestMixedGivesWay: who comes later gets some of the shared ones, and the container
// leaves them first.
func TestMixedGivesWay(t *testing.T) {
	n := newNode(t)
	n.yaml = mixing(carvedYAML, "shared")
	r := n.start()
	id := n.container(n.pod("m", "default", "guaranteed", 2, mixed()), "app", whole(2))
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	has := func(cpus string) {
		t.Helper()
		n.runsOn(id, cpus)
		n.eventually("recorded "+cpus, func() bool {
			c, err := n.client.ContainerStatus(t.Context(), id)
			return err == nil && c.Recorded.CPUs == cpus
		})
	}
	has("2-7")
	n.runsOn(shared, "4-7")
	n.eventually("no quota", func() bool { return n.state(id).Quota == -1 })
	later := n.container(n.pod("l", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(later, "4-5")
	has("2-3,6-7")
	n.runsOn(shared, "6-7")
	r.view("one that runs is mixed", func(v *telemetry.View) bool { return v.Mixed == 1 && v.Problems["NoPartition"] == 0 })
}

// TestMixedOnCRIO: CRI-O adds the CPUs of OPENSHIFT_SHARED_CPUS in each update, so that it
// must not name CPUs that somebody may get for himself.
func TestMixedOnCRIO(t *testing.T) {
	for name, c := range map[string]struct {
		yaml, want string
		told       bool
	}{
		"carved": {yaml: mixing(carvedYAML, "shared")},
		"list":   {yaml: mixing(carvedYAML, "6-7"), want: "6-7", told: true},
		"fixed":  {yaml: mixing(poolsYAML, "shared"), want: "2-3", told: true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCRIONode(t, false, managers.CRIO{})
			n.yaml = c.yaml
			a := n.start().asker()
			pod := ofPod("m", "default", "guaranteed", 2, mixed())
			env := a.mustCreate(pod, a.container(pod, "app", whole(2))).Adjustment.Env
			if got, told := env["OPENSHIFT_SHARED_CPUS"]; got != c.want || told != c.told || env["CPUPOOL_MIXED_CPUS"] == "" {
				t.Errorf("environment %v; want OPENSHIFT_SHARED_CPUS=%q", env, c.want)
			}
		})
	}
}

// TestMixedIsNoPartition: it is kept by cpusets, and says why; the others of its pod are
// partitions as ever. Once nobody is mixed, it is one too.
func TestMixedIsNoPartition(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			plain := isolating(n.yaml)
			n.yaml = mixing(plain, "shared")
			r := n.start()
			pod := n.pod("m", "default", "guaranteed", 3, mixed())
			app, side := n.container(pod, "app", whole(2)), n.container(pod, "side", whole(1))
			n.isPartition(side, cgroup.RootPartition)
			n.runsOn(app, "2-5")
			r.quiet()
			if st := n.state(app); !st.Partition.Is(cgroup.MemberPartition) {
				t.Errorf("a container that shares CPUs is a partition: %s", st.Partition)
			}
			r.view("a problem of one", func(v *telemetry.View) bool { return v.Problems["NoPartition"] == 1 && v.Partitions["root"] == 1 })
			for _, o := range n.preview().Owners {
				if shares := o.Name == "app"; shares != strings.Contains(o.Why, "beside its own") {
					t.Errorf("plan says of %s: %q", o.Name, o.Why)
				}
			}
			r.stop()
			n.yaml = plain
			r = n.start()
			n.isPartition(app, cgroup.RootPartition)
			n.runsOn(app, "4-5")
			r.stop()
			n.yaml = mixing(plain, "shared")
			r = n.start() // the partition ends, and what is shared comes to it
			n.runsOn(app, "2-5")
			n.isPartition(side, cgroup.RootPartition)
			r.quiet()
			if n.tree.Crashed() || !n.tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.tree.Crashed(), n.tree.Leaked())
			}
		})
	}
}

// TestMixedFollowsThePool: over resizes of its own, offline CPUs and a restart without a
// journal.
func TestMixedFollowsThePool(t *testing.T) {
	n := newNode(t)
	n.yaml = mixing(carvedYAML, "shared") + "infraContainers: management\n"
	r := n.start()
	shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(shared, "2-7")
	pod := n.pod("m", "default", "guaranteed", 2, mixed())
	app := n.container(pod, "app", whole(2))
	n.runsOn(app, "2-7")
	n.runsOn(shared, "4-7")
	n.runsOn(pod, "0-1")
	r.quiet()
	r.stop()
	if err := os.Remove(filepath.Join(n.dir, "journal.json")); err != nil {
		t.Fatal(err)
	}
	writes := len(n.tree.Writes())
	r = n.start()
	r.quiet()
	if more := n.tree.Writes()[writes:]; len(more) > 0 {
		t.Errorf("a daemon that starts without a journal writes %v", more)
	}
	late := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.eventually("CPUs of the late one", func() bool { return n.state(late).Effective.Len() == 2 })
	r.quiet()
	took := n.state(late).Effective
	rest := cpuset.Range(4, 7).Difference(took)
	n.runsOn(shared, rest.String())
	n.runsOn(app, cpuset.Range(2, 3).Union(rest).String())
	r.stop()
}
