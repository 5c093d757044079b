package size_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestPlanIsValid packs random pods on random nodes. Each pod is on one node or is reported, no
// node has more than its amounts, and a simulation of each node gives the same CPUs.
func TestPlanIsValid(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 80 {
		text, pods := randomPods(r)
		kinds := []size.Kind{kindOf(t, "first", "2s4c2t", randomConfig(r))}
		if r.IntN(2) == 0 {
			kinds = append(kinds, kindOf(t, "second", "2s2n4c2t", randomConfig(r)))
			kinds[1].Node = &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("7")}}}
		}
		plan := func() *size.Document { return planned(t, text, kinds...) }
		d := plan()
		if diff := cmp.Diff(d, plan()); diff != "" {
			t.Fatalf("run %d: two plans of the same pods differ:\n%s", i, diff)
		}
		if d.Bound.Nodes > len(d.Nodes) {
			t.Fatalf("run %d: %d nodes; the bound is %d", i, len(d.Nodes), d.Bound.Nodes)
		}
		byName := make(map[string]*simulate.Pod)
		all := fleet(t, text)
		for i := range all.Pods {
			byName[all.Pods[i].Name()] = &all.Pods[i]
		}
		on := make(map[string]bool)
		for j := range d.Nodes {
			n := &d.Nodes[j]
			kind := kinds[0]
			if n.Machine != kind.Name {
				kind = kinds[1]
			}
			if most := map[string]int{"first": 110, "second": 7}[n.Machine]; len(n.Pods) > most {
				t.Fatalf("run %d: node %s has %d pods; want at most %d", i, n.Name, len(n.Pods), most)
			}
			for _, p := range n.Pods {
				if on[p.Name] && !p.Daemon {
					t.Fatalf("run %d: pod %s is on two nodes", i, p.Name)
				}
				on[p.Name] = true
			}
			checkNode(t, n, &kind, byName)
			if t.Failed() {
				t.Fatalf("run %d: %s", i, text)
			}
		}
		placed := d.Pods
		for _, u := range d.Unplaced {
			if !u.Daemon {
				placed += u.Count
			}
		}
		if placed != pods {
			t.Fatalf("run %d: %d pods have a node or a reason; want %d\n%s", i, placed, pods, text)
		}
		for _, s := range d.Savings {
			left := pods - d.Pods
			if s.Unplaced > left || s.Unplaced == left && s.Nodes >= len(d.Nodes) {
				t.Fatalf("run %d: with %s: %s there are %d nodes and %d pods without a node, instead of %d and %d", i, s.Key, s.Value, s.Nodes, s.Unplaced, len(d.Nodes), left)
			}
		}
	}
}

// checkNode simulates a node with its pods, and compares the CPUs.
func checkNode(t *testing.T, n *size.Node, kind *size.Kind, byName map[string]*simulate.Pod) {
	t.Helper()
	node, err := simulate.NewNode(kind.Config, kind.Topology, nil)
	if err != nil {
		t.Fatal(err)
	}
	var pods simulate.Objects
	want, milli := make(map[string]string), int64(0)
	for _, p := range n.Pods {
		pod := byName[p.Name]
		pods.Pods = append(pods.Pods, *pod)
		want[p.Name] = p.CPUs.String()
		for _, c := range pod.Spec.Spec.Containers {
			q, requests := c.Resources.Requests[corev1.ResourceCPU]
			if !requests {
				q = c.Resources.Limits[corev1.ResourceCPU]
			}
			milli += q.MilliValue()
		}
	}
	if _, err := node.Run(&pods, nil); err != nil {
		t.Fatal(err)
	}
	d := node.Document("")
	got, owned := make(map[string]string), cpuset.Set{}
	for name := range want {
		got[name] = ""
	}
	for i := range d.Containers {
		if c := &d.Containers[i]; c.Pool == inspect.Guaranteed {
			if c.CPUs.Overlaps(owned) {
				t.Errorf("node %s: CPUs %v of %s have another owner", n.Name, c.CPUs, c.Full())
			}
			owned = owned.Union(c.CPUs)
			name := c.Namespace + "/" + c.Pod
			all, err := cpuset.Parse(got[name])
			if err != nil {
				t.Fatal(err)
			}
			got[name] = all.Union(c.CPUs).String()
		}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("node %s: the simulation (-) and the plan (+) have other exclusive CPUs:\n%s", n.Name, diff)
	}
	if len(d.Refused) > 0 {
		t.Errorf("node %s refuses %v", n.Name, d.Refused)
	}
	usable := int64(0)
	for _, p := range d.Pools {
		if p.Name == inspect.Shared || p.Name == inspect.Guaranteed && !p.FromShared {
			usable += int64(p.CPUs.Len()) * 1000
		}
		if p.Name == inspect.Guaranteed && p.FromShared {
			usable += int64(p.Owned.Len()+p.Idle.Len()) * 1000 // the scheduler does not know of idle siblings
		}
	}
	if milli > usable {
		t.Errorf("node %s: the pods request %d thousandths of a CPU; shared and guaranteed pool have %d", n.Name, milli, usable)
	}
}

func randomConfig(r *rand.Rand) string {
	options := []string{"", "full-pcpus-only: true", "topology-policy: single-numa-node", "one-owner-per-core: true", "distribute-cpus-across-numa: true"}[r.IntN(5)]
	pool := []string{`cpus: "4-7,12-15"`, "from: shared", "from: shared, floor: 5", `cpus: "2-7,10-15"`}[r.IntN(4)]
	return configOf("{" + pool + ", options: {" + options + "}}")
}

// randomPods returns Deployments and perhaps a DaemonSet, and the number of pods without the pod
// of the DaemonSet.
func randomPods(r *rand.Rand) (text string, pods int) {
	var b strings.Builder
	for i := range 1 + r.IntN(6) {
		resources := []string{whole(1 + r.IntN(6)), whole(1 + r.IntN(3)), fmt.Sprintf("requests: {cpu: %dm}", 50+r.IntN(1950)), ""}[r.IntN(4)]
		n := r.IntN(9)
		b.WriteString(deployment(fmt.Sprintf("d%d", i), n, resources, ""))
		pods += n
	}
	if r.IntN(3) == 0 {
		daemon := deployment("agent", 1, []string{"requests: {cpu: 100m}", whole(1)}[r.IntN(2)], "")
		b.WriteString(strings.Replace(strings.Replace(daemon, "Deployment", "DaemonSet", 1), "  replicas: 1\n", "", 1))
	}
	return b.String(), pods
}

// FuzzPlan packs the pods of any file.
func FuzzPlan(f *testing.F) {
	f.Add([]byte(deployment("a", 3, whole(2), "") + deployment("b", 2, "requests: {cpu: 100m, memory: 1Gi}", "      nodeSelector: {a: b}\n")))
	f.Add([]byte(strings.Replace(deployment("a", 1, whole(1), "      tolerations: [{operator: Exists}]\n"), "Deployment", "DaemonSet", 1)))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","uid":"u","ownerReferences":[{"kind":"DaemonSet","name":"d"}]},"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n"]}]}]}}},"resources":{"limits":{"cpu":"2"}},"containers":[{"name":"c"}]}}`))
	kind := kindOf(f, "n", "2s2c2t", "")
	f.Fuzz(func(t *testing.T, data []byte) {
		var all simulate.Objects
		all.Read("-", data, "default")
		if len(all.Pods) > 50 {
			return
		}
		o, err := all.Fleet()
		if err != nil {
			return
		}
		d, err := size.Plan(&size.Input{Kinds: []size.Kind{kind}, Objects: o})
		if err != nil {
			t.Fatal(err)
		}
		if d.Bound.Nodes > len(d.Nodes) {
			t.Fatalf("%d nodes; the bound is %d", len(d.Nodes), d.Bound.Nodes)
		}
	})
}

// BenchmarkPlan packs pods of 100 workloads on nodes with 100 CPUs. The aim is 20 s for 5,000 pods on
// one core.
func BenchmarkPlan(b *testing.B) {
	for name, yaml := range map[string]string{
		"fresh": "",
		"numa": "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\npartitions: [{type: management, cpus: \"0,50\"}]\n" +
			"guaranteed: {cpus: \"10-49,60-99\", options: {topology-policy: single-numa-node}}\n",
	} {
		for _, pods := range []int{300, 5000} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) {
				var text strings.Builder
				for i := range 50 {
					text.WriteString(deployment(fmt.Sprintf("whole%d", i), pods/100, whole(1+i%8), ""))
					text.WriteString(deployment(fmt.Sprintf("part%d", i), pods/100, fmt.Sprintf("requests: {cpu: %dm, memory: 64Mi}", 100+i*30), ""))
				}
				in := &size.Input{Kinds: []size.Kind{kindOf(b, "n", "2s25c2t", yaml)}, Objects: fleet(b, text.String())}
				b.ReportAllocs()
				before := cputime.Of(b)
				for b.Loop() {
					d, err := size.Plan(in)
					if err != nil {
						b.Fatal(err)
					}
					if d.Pods != pods {
						b.Fatalf("%d pods have a node; want %d", d.Pods, pods)
					}
				}
				cputime.Report(b, before)
			})
		}
	}
}
