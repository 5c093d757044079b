package size_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
)

var update = flag.Bool("update", false, "write the golden files")

// kindOf returns a kind of node with a described machine. Without a configuration it has the
// pools of a fresh installation.
func kindOf(t testing.TB, name, machine, yaml string) size.Kind {
	t.Helper()
	m, err := simulate.Describe(machine)
	if err != nil {
		t.Fatal(err)
	}
	if yaml == "" {
		fresh, err := os.ReadFile("../../../cmd/kubectl-cpupool/fresh.yaml")
		if err != nil {
			t.Fatal(err)
		}
		yaml = string(fresh)
	}
	c, err := config.Parse([]byte(yaml), "config.yaml", config.Overrides{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return size.Kind{Name: name, Topology: m, Config: c, File: "config.yaml"}
}

func fleet(t testing.TB, pods string) *simulate.Objects {
	t.Helper()
	var all simulate.Objects
	for _, err := range all.Read("-", []byte(pods), "default") {
		t.Fatal(err)
	}
	o, err := all.Fleet()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func planned(t testing.TB, pods string, kinds ...size.Kind) *size.Document {
	t.Helper()
	d, err := size.Plan(&size.Input{Kinds: kinds, Objects: fleet(t, pods)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// configOf returns a configuration of a machine with 16 CPUs in two NUMA nodes.
func configOf(guaranteed string) string {
	return "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n" +
		"partitions: [{type: management, cpus: \"0,8\", namespaces: [kube-system]}]\nguaranteed: " + guaranteed + "\n"
}

// deployment returns a Deployment whose pods have one container.
func deployment(name string, replicas int, resources, spec string) string {
	return fmt.Sprintf("---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %s}\nspec:\n  replicas: %d\n  template:\n    spec:\n      containers: [{name: c, resources: {%s}}]\n%s",
		name, replicas, resources, spec)
}

func whole(cpus int) string { return fmt.Sprintf(`limits: {cpu: "%d", memory: 1Gi}`, cpus) }

// shown returns the nodes with the number of their pods and the reason for each node, the pods
// without a node, and the savings.
func shown(d *size.Document) string {
	var b strings.Builder
	for _, n := range d.Nodes {
		fmt.Fprintf(&b, "%s: %d pods, opened by %s: %s\n", n.Name, len(n.Pods), n.Opened.Pod, n.Opened.Text)
	}
	for _, u := range d.Unplaced {
		for _, r := range u.Reasons {
			fmt.Fprintf(&b, "%d of %s: %s: %s\n", u.Count, u.Pod, r.Machine, r.Text)
		}
	}
	for _, s := range d.Savings {
		fmt.Fprintf(&b, "%s=%s: %d nodes, %d saved, %d unplaced\n", s.Key, s.Value, s.Nodes, s.Saved, s.Unplaced)
	}
	return b.String()
}

// TestPlan compares nodes, pods without a node and savings with a golden file.
func TestPlan(t *testing.T) {
	dedicated := &corev1.Node{}
	dedicated.Labels = map[string]string{"zone": "a"}
	dedicated.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoExecute},
		{Key: "wear", Effect: corev1.TaintEffectPreferNoSchedule},
		{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule},
	}
	dedicated.Status.Allocatable = corev1.ResourceList{"memory": resource.MustParse("4Gi"), "example.com/nic": resource.MustParse("1"), "pods": resource.MustParse("5")}
	const tolerates = "      tolerations: [{key: dedicated, operator: Exists}]\n"
	cases := map[string]struct {
		pods, config string
		node         *corev1.Node
	}{
		"the planner refuses a pod that the scheduler admits": { // 2 CPUs are free, 1 on each NUMA node
			pods:   deployment("a", 2, whole(3), "") + deployment("b", 1, whole(2), ""),
			config: configOf(`{cpus: "2-5,10-13", options: {topology-policy: single-numa-node}}`) + "shared: {cpus: \"1,6-7,9,14-15\"}\n",
		},
		"a part of a core is refused on an empty node": {
			pods: deployment("a", 2, whole(3), ""), config: configOf(`{cpus: "2-7,10-15", options: {full-pcpus-only: true}}`),
		},
		"pods and memory": {
			pods: deployment("a", 6, "requests: {memory: 1Mi}", tolerates) + deployment("b", 3, "requests: {memory: 2Gi}", tolerates), node: dedicated,
		},
		"labels, taints and extended resources": {
			pods: deployment("a", 1, "", "") + deployment("b", 1, "", tolerates+"      nodeSelector: {zone: b}\n") +
				deployment("c", 2, `limits: {example.com/nic: "1"}`, tolerates) + deployment("d", 1, `limits: {example.com/gpu: "1"}`, tolerates) +
				deployment("e", 1, "", tolerates+"      nodeSelector: {zone: a}\n"), node: dedicated,
		},
		"a larger guaranteed pool makes room": {
			pods: deployment("a", 1, whole(10), ""), config: configOf(`{cpus: "4-7,12-15"}`),
		},
		"a smaller guaranteed pool makes room": {
			pods: deployment("a", 9, "requests: {cpu: 1500m}", ""), config: configOf(`{cpus: "2-7,10-15"}`),
		},
		"a lower floor": {
			pods: deployment("a", 4, whole(5), ""), config: configOf(`{from: shared, floor: 6}`),
		},
		"a smaller management pool": {
			pods:   deployment("a", 2, whole(6), ""),
			config: strings.Replace(configOf(`{from: shared, floor: 1}`), `"0,8"`, "0-3", 1),
		},
		"the label of Linux": {pods: deployment("a", 1, "", "      nodeSelector: {kubernetes.io/os: linux}\n") + deployment("b", 1, "", "      nodeSelector: {kubernetes.io/arch: arm64}\n")},
		"no pods":            {pods: deployment("a", 0, whole(1), "")},
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		kind := kindOf(t, "n", "2s4c2t", c.config)
		kind.Node = c.node
		fmt.Fprintf(&b, "== %s\n%s", name, shown(planned(t, c.pods, kind)))
	}
	const golden = "testdata/plan.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
