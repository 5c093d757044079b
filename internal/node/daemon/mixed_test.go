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

// TestForeignVariable checks that the reply empties OPENSHIFT_SHARED_CPUS of a pod or an image,
// also in a container that CRI-O places. A variable of another plugin stays.
func TestForeignVariable(t *testing.T) {
	crio := managers.CRIO{Workloads: []managers.Workload{{Name: "batch", Activation: "example.com/batch", Pins: true}}}
	for name, c := range map[string]struct {
		value, plugin string // CPUs by another plugin
		cpus          int    // whole CPUs
		annotations   map[string]string
		set           bool   // the reply sets the variable
		want          string // its value in the reply
	}{
		"exclusive":  {value: "4-7", cpus: 2, set: true},
		"shared":     {value: "4-7", set: true},
		"not a list": {value: "all", set: true},
		"no value":   {},
		"mixed":      {value: "4-7", cpus: 2, annotations: nodefixture.MixedAnnotations(), set: true, want: "2-3"},
		"CRI-O's":    {value: "4-7", cpus: 2, annotations: map[string]string{"example.com/batch": ""}, set: true},
		"plugin's":   {value: "4-7", plugin: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCRIONode(t, false, crio)
			n.YAML = nodefixture.WithMixed(nodefixture.PoolsYAML, "shared") + "otherManagers: standDown\n"
			a := n.start().asker()
			qos := "burstable"
			if c.cpus > 0 {
				qos = "guaranteed"
			}
			pod := ofPod("m", "default", qos, c.cpus, c.annotations)
			ctr := a.container(pod, "app", nodefixture.WholeCPUs(c.cpus))
			ctr.SharedCPUs, ctr.Requested.CPUs = c.value, c.plugin
			got := a.mustCreate(pod, ctr).Adjustment
			if value, set := got.Env[cri.SharedCPUsVariable]; set != c.set || value != c.want {
				t.Errorf("environment %v; want %t %q", got.Env, c.set, c.want)
			}
		})
	}
}

// TestForeignVariableOverNRI checks that CRI-O adds no CPUs to a container after the reply, by
// NRI's own code in the runtime.
func TestForeignVariableOverNRI(t *testing.T) {
	n := newCRIONode(t, true, managers.CRIO{})
	n.NRI = true
	r := n.start()
	r.connected()
	pod := n.RunPod("web", "default", "burstable", 0, nil)
	id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: cri.Resources{Shares: 512},
		Env: []string{"A=1", cri.SharedCPUsVariable + "=4-7"}})
	if err == nil {
		err = n.Runtime.StartContainer(id)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := cri.SharedCPUs(n.Runtime.Env(id)); got != "" {
		t.Errorf("the container has %s=%s; want an empty string", cri.SharedCPUsVariable, got)
	}
	if err := n.Runtime.Resize(id, cri.Resources{Shares: 1024}); err != nil {
		t.Fatal(err)
	}
	n.AwaitCPUs(id, "2-3")
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems["SharedCPUsVariable"] == 0 })
	if drifts := r.loop.publisher.Metrics().Drifts; len(drifts) > 0 {
		t.Errorf("the update has changed %v", drifts)
	}
}

// TestVariableWithoutNRI checks a container whose environment names foreign CPUs on CRI-O
// without NRI. The daemon never makes CRI-O add them, repairs the cpuset after an update of
// the kubelet, and reports the container.
func TestVariableWithoutNRI(t *testing.T) {
	for value, problems := range map[string]int{"4-7": 1, "2-4": 1, "all": 1, "2-3": 0, "": 0} {
		t.Run(value, func(t *testing.T) {
			n := newCRIONode(t, false, managers.CRIO{})
			r := n.start()
			owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.AwaitCPUs(owner, "4-5")
			pod := n.RunPod("web", "default", "burstable", 0, nil)
			id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: cri.Resources{Shares: 512},
				Env: []string{"A=1", cri.SharedCPUsVariable + "=" + value}})
			if err == nil {
				err = n.Runtime.StartContainer(id)
			}
			if err != nil {
				t.Fatal(err)
			}
			n.AwaitCPUs(id, "2-3")
			r.settled()
			r.view("problem", func(v *telemetry.View) bool { return v.Problems["SharedCPUsVariable"] == problems && v.Faulty == 0 })
			status := func() string {
				c, err := n.Client.ContainerStatus(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				return c.Recorded.CPUs
			}
			if got := status(); (got == "2-3") != (problems == 0) {
				t.Errorf("CRI-O has recorded CPUs %q", got)
			}
			n.mu.Lock()
			for _, w := range n.writes {
				if strings.HasPrefix(w, n.Runtime.Cgroup(id)+"/cpuset.cpus=") && !strings.HasSuffix(w, "=2-3") {
					t.Errorf("write %s", w)
				}
			}
			n.mu.Unlock()
			// The kubelet's update has no CPUs: CRI-O adds the CPUs in the variable.
			if err := n.Runtime.Resize(id, cri.Resources{Shares: 1024}); (err != nil) != (value == "all") {
				t.Fatal(err)
			}
			n.AwaitCPUs(id, "2-3")
			r.settled()
			n.AwaitCPUs(id, "2-3")
			n.CheckOccupants()
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
