package hostedpriority

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// all are the priority classes of the default table, HyperShift's, the system's, and one more.
func all() PriorityClasses {
	have := PriorityClasses{
		"hypershift-control-plane": 100_000_000, "hypershift-api-critical": 100_001_000, "hypershift-etcd": 100_002_000, "hypershift-operator": 100_003_000,
		"system-node-critical": 2_000_001_000, "gold": 9_000_000,
	}
	c := Default()
	for _, s := range c.Sizes {
		have[s.ControlPlane.Name], have[s.Etcd.Name] = s.ControlPlane.Value, s.Etcd.Value
	}
	return have
}

func defaults() Table {
	c := Default()
	return c.Table()
}

const override = "hypershift.openshift.io/"

func TestChoose(t *testing.T) {
	size := func(name string) [3]string {
		return [3]string{"hypershift-" + name, "hypershift-" + name, "hypershift-etcd-" + name}
	}
	missing, differing := all(), all()
	delete(missing, "hypershift-etcd-s")
	differing["hypershift-s"] = 1
	sizing, err := ParseSizing([]byte(`{"spec":{"sizes":[{"name":"small","criteria":{"from":0,"to":10},"effects":{"controlPlanePriorityClassName":"gold"}},
		{"name":"large","criteria":{"from":11},"effects":{"etcdPriorityClassName":"hypershift-etcd-xl"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	falling, err := ParseSizing([]byte(`{"spec":{"sizes":[
		{"name":"small","criteria":{"from":0,"to":10},"effects":{"controlPlanePriorityClassName":"hypershift-m","APICriticalPriorityClassName":"hypershift-m","etcdPriorityClassName":"hypershift-etcd-m"}},
		{"name":"large","criteria":{"from":11},"effects":{"controlPlanePriorityClassName":"hypershift-s","APICriticalPriorityClassName":"hypershift-s","etcdPriorityClassName":"hypershift-etcd-s"}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		table       Table
		have        PriorityClasses
		annotations map[string]string
		had         string
		nodes       int64
		want        Choice
	}{
		"no nodes": {nodes: 0, want: Choice{Size: "xs", Classes: size("xs")}},
		"counted":  {nodes: 26, want: Choice{Size: "m", Classes: size("m")}},
		"never lowered": {nodes: 0, annotations: map[string]string{SizeKey: "l"},
			want: Choice{Size: "l", Classes: size("l")}},
		"raised":                         {nodes: 101, annotations: map[string]string{SizeKey: "l"}, want: Choice{Size: "xl", Classes: size("xl")}},
		"had a size that is not written": {nodes: 0, had: "l", annotations: map[string]string{SizeKey: "s"}, want: Choice{Size: "l", Classes: size("l")}},
		"had a smaller one":              {nodes: 26, had: "s", want: Choice{Size: "m", Classes: size("m")}},
		"was of a size that is gone": {nodes: 11, annotations: map[string]string{SizeKey: "huge"},
			want: Choice{Size: "huge", Classes: size("s"), Problems: []Problem{{Kind: UnknownSize, Text: `annotation hosted-priority.cpupoold.io/size is "huge": there is no such size`}}}},
		"was of a size that is gone, with higher classes": {nodes: 11, annotations: map[string]string{SizeKey: "huge", ControlPlane.ClassKey(): "hypershift-l", APICritical.ClassKey(): "hypershift-l", Etcd.ClassKey(): "hypershift-etcd-l"},
			want: Choice{Size: "huge", Classes: size("l"), Problems: []Problem{{Kind: UnknownSize, Text: "keeps its classes where the classes of size s are lower"}}}},
		"was of a size that is gone, with classes that nobody may have": {nodes: 11, annotations: map[string]string{SizeKey: "huge", ControlPlane.ClassKey(): "system-node-critical", APICritical.ClassKey(): "hypershift-xs", Etcd.ClassKey(): "silver"},
			want: Choice{Size: "huge", Classes: size("s"), Problems: []Problem{{Kind: UnknownSize, Text: "there is no such size"}}}},
		"dedicated": {annotations: map[string]string{DedicatedKey: "true"}, want: Choice{Size: "dedicated", Classes: size("dedicated")}},
		"not dedicated any more": {annotations: map[string]string{DedicatedKey: "false", SizeKey: "dedicated"},
			want: Choice{Size: "dedicated", Classes: size("dedicated")}},
		"dedicated, perhaps": {annotations: map[string]string{DedicatedKey: "yes"},
			want: Choice{Size: "xs", Classes: size("xs"), Problems: []Problem{{Kind: BadAnnotation, Text: `annotation hosted-priority.cpupoold.io/dedicated is "yes"`}}}},
		"opted out":     {annotations: map[string]string{OptOutKey: "true", override + "etcd-priority-class": "gold"}, want: Choice{OptedOut: true}},
		"not opted out": {annotations: map[string]string{OptOutKey: "false"}, want: Choice{Size: "xs", Classes: size("xs")}},
		"opted out, perhaps": {annotations: map[string]string{OptOutKey: "yes"},
			want: Choice{OptedOut: true, Problems: []Problem{{Kind: BadAnnotation, Text: `annotation hosted-priority.cpupoold.io/opt-out is "yes"`}}}},

		"overridden": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": "gold"},
			want: Choice{Size: "s", Classes: [3]string{"hypershift-s", "hypershift-s", "gold"}, Overridden: [3]bool{Etcd: true}}},
		"overridden by less, all of them": {nodes: 11, annotations: map[string]string{
			override + "control-plane-priority-class": "hypershift-xs", override + "api-critical-priority-class": "hypershift-etcd-xs", override + "etcd-priority-class": "hypershift-etcd"},
			want: Choice{Size: "s", Classes: [3]string{"hypershift-xs", "hypershift-etcd-xs", "hypershift-etcd"}, Overridden: [3]bool{true, true, true}}},
		"overridden by nothing": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": ""}, want: Choice{Size: "s", Classes: size("s")}},
		"overridden by what is not there": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": "silver"},
			want: Choice{Size: "s", Classes: size("s"), Problems: []Problem{{Kind: BadAnnotation, Text: `is "silver": there is no such PriorityClass`}}}},
		"overridden by the system's": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": "system-node-critical"},
			want: Choice{Size: "s", Classes: size("s"), Problems: []Problem{{Kind: BadAnnotation, Text: `is "system-node-critical": is a class of the system's`}}}},
		"overridden by no name": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": "A B"},
			want: Choice{Size: "s", Classes: size("s"), Problems: []Problem{{Kind: BadAnnotation, Text: `is "A B": is no name of a priority class`}}}},

		"class missing": {nodes: 11, have: missing,
			want: Choice{Size: "s", Classes: [3]string{"hypershift-s", "hypershift-s", ""}, Problems: []Problem{{Kind: ClassMissing, Text: "size s: there is no PriorityClass hypershift-etcd-s; make it"}}}},
		"class differs": {nodes: 11, have: differing,
			want: Choice{Size: "s", Problems: []Problem{
				{Kind: ClassDiffers, Text: "PriorityClass hypershift-s has the value 1, and not 2000000"}, {Kind: ClassDiffers, Text: "PriorityClass hypershift-s has the value 1, and not 2000000"},
				{Kind: EtcdBelow, Text: "etcd would have the class hypershift-etcd-s, 2500000, and control-plane hypershift-control-plane, 100000000; pods without an annotation for their role keep their classes: correct"}}}},
		"control plane overridden by more than the size's etcd": {nodes: 11, annotations: map[string]string{override + "control-plane-priority-class": "gold"},
			want: Choice{Size: "s", Classes: [3]string{"gold"}, Overridden: [3]bool{true}, Problems: []Problem{{Kind: EtcdBelow, Text: "etcd would have the class hypershift-etcd-s, 2500000, and control-plane gold, 9000000"}}}},
		"control plane overridden by as much": {nodes: 11, annotations: map[string]string{override + "api-critical-priority-class": "hypershift-etcd-s"},
			want: Choice{Size: "s", Classes: [3]string{APICritical: "hypershift-etcd-s"}, Overridden: [3]bool{APICritical: true}, Problems: []Problem{{Kind: EtcdBelow, Text: "api-critical hypershift-etcd-s, 2500000"}}}},
		"etcd overridden by less than the size's control plane": {nodes: 11, annotations: map[string]string{override + "etcd-priority-class": "hypershift-xs"},
			want: Choice{Size: "s", Classes: [3]string{Etcd: "hypershift-xs"}, Overridden: [3]bool{Etcd: true}, Problems: []Problem{{Kind: EtcdBelow, Text: "control-plane hypershift-control-plane, 100000000; pods without an annotation for their role keep their classes, and etcd is still not above"}}}},
		"all overridden, etcd not last": {nodes: 11, annotations: map[string]string{
			override + "control-plane-priority-class": "gold", override + "api-critical-priority-class": "gold", override + "etcd-priority-class": "gold"},
			want: Choice{Size: "s", Classes: [3]string{"gold", "gold", "gold"}, Overridden: [3]bool{true, true, true}, Problems: []Problem{{Kind: EtcdBelow, Text: "correct the annotations of HyperShift"}}}},

		"no sizes": {table: Table{dedicated: false, values: true}, annotations: map[string]string{SizeKey: "l", override + "etcd-priority-class": "gold"},
			want: Choice{Classes: [3]string{Etcd: "gold"}, Overridden: [3]bool{Etcd: true}, Problems: []Problem{{Kind: EtcdBelow, Text: "etcd would have the class gold, 9000000, and control-plane hypershift-control-plane"}}}},
		"HyperShift's sizes, small": {table: sizing, nodes: 10, want: Choice{Size: "small", Classes: [3]string{"gold", "", ""}}},
		"HyperShift's sizes, large": {table: sizing, nodes: 11,
			want: Choice{Size: "large", Problems: []Problem{{Kind: EtcdBelow, Text: "etcd would have the class hypershift-etcd-xl, 5500000, and control-plane gold, 9000000"}}}},
		"HyperShift's sizes, the larger with less": {table: falling, nodes: 11, want: Choice{Size: "large", Classes: [3]string{"hypershift-m", "hypershift-m", "hypershift-etcd-m"}, Problems: []Problem{
			{Kind: ClassDiffers, Text: "size large: PriorityClass hypershift-s has the value 2000000, which is less than that of hypershift-m, 3000000, of the smaller size small"},
			{Kind: ClassDiffers, Text: "hypershift-s has the value"}, {Kind: ClassDiffers, Text: "hypershift-etcd-s has the value 2500000"}}}},
		"HyperShift's sizes, dedicated": {table: sizing, annotations: map[string]string{DedicatedKey: "true"},
			want: Choice{Size: "small", Classes: [3]string{"gold", "", ""}, Problems: []Problem{{Kind: BadAnnotation, Text: "no size is the dedicated one"}}}},
	} {
		if c.table.sizes == nil && !c.table.values {
			c.table = defaults()
		}
		if c.have == nil {
			c.have = all()
		}
		got := Choose(c.table, c.have, HostedCluster{Namespace: "clusters", Name: "a", Annotations: c.annotations, Had: c.had}, c.nodes)
		for i := range min(len(got.Problems), len(c.want.Problems)) {
			if !strings.Contains(got.Problems[i].Text, c.want.Problems[i].Text) {
				t.Errorf("%s: problem %q; want one with %q", name, got.Problems[i].Text, c.want.Problems[i].Text)
			}
			c.want.Problems[i].Text = got.Problems[i].Text
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestEtcdGoesLast checks that etcd is above its control plane for any classes and
// annotations. Otherwise there must be a problem, and only classes of annotations are given.
// More nodes never make a class lower.
func TestEtcdGoesLast(t *testing.T) {
	below := 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		have := all()
		for _, name := range slices.Sorted(maps.Keys(have)) {
			switch r.IntN(12) {
			case 0:
				delete(have, name)
			case 1:
				have[name] = r.Int64N(8) * 1_000_000
			}
		}
		names := slices.Sorted(maps.Keys(have))
		annotations := map[string]string{}
		for _, role := range Roles() {
			if r.IntN(4) == 0 {
				annotations[role.OverrideKey()] = names[r.IntN(len(names))]
			}
		}
		table := defaults()
		table.values = r.IntN(2) == 0
		few := Choose(table, have, HostedCluster{Annotations: annotations}, 5)
		many := Choose(table, have, HostedCluster{Annotations: annotations}, 60)
		for _, c := range []Choice{few, many} {
			said := slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Kind == EtcdBelow })
			if !said && c.etcdBelow(have) != "" {
				t.Fatalf("seed %d: %s, and nothing is said of it: %+v", seed, c.etcdBelow(have), c)
			}
			for _, role := range Roles() {
				if said && !c.Overridden[role] && c.Classes[role] != "" {
					t.Fatalf("seed %d: %s is given though etcd is not last: %+v", seed, c.Classes[role], c)
				}
			}
			if said {
				below++
			}
		}
		for _, role := range Roles() {
			if a, b := few.Classes[role], many.Classes[role]; a != "" && b != "" && have[b] < have[a] {
				t.Fatalf("seed %d: %s is %s of 5 nodes, %d, and %s of 60, %d", seed, role, a, have[a], b, have[b])
			}
		}
	}
	if below == 0 {
		t.Error("etcd was always last by itself")
	}
}

func TestRecord(t *testing.T) {
	is := func(s string) *string { return &s }
	const plane, api, etcd = domain + "control-plane-class", domain + "api-critical-class", domain + "etcd-class"
	for name, c := range map[string]struct {
		nodes       int64
		table       Table
		annotations map[string]string
		want        map[string]*string
	}{
		"first": {0, defaults(), map[string]string{"a": "b"},
			map[string]*string{SizeKey: is("xs"), plane: is("hypershift-xs"), api: is("hypershift-xs"), etcd: is("hypershift-etcd-xs")}},
		"the same": {11, defaults(), map[string]string{SizeKey: "s", plane: "hypershift-s", api: "hypershift-s", etcd: "hypershift-etcd-s"}, map[string]*string{}},
		"somebody else wrote": {11, defaults(), map[string]string{SizeKey: "xs", plane: "hypershift-s", api: "gold", etcd: "hypershift-etcd-s"},
			map[string]*string{SizeKey: is("s"), api: is("hypershift-s")}},
		"opted out": {11, defaults(), map[string]string{OptOutKey: "true", SizeKey: "s", plane: "hypershift-s"}, map[string]*string{SizeKey: nil, plane: nil}},
		"perhaps":   {11, defaults(), map[string]string{OptOutKey: "y", SizeKey: "s", plane: "hypershift-s"}, nil},
		"no sizes":  {11, Table{}, map[string]string{SizeKey: "s", plane: "hypershift-s"}, map[string]*string{plane: nil}},
	} {
		got := Choose(c.table, all(), HostedCluster{Annotations: c.annotations}, c.nodes).Record(c.annotations)
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestParseNodePool(t *testing.T) {
	for text, want := range map[string]int64{
		`{"spec":{"clusterName":"a"}}`:                                                                0,
		`{"spec":{"clusterName":"a","replicas":3},"status":{"replicas":7}}`:                           3,
		`{"spec":{"clusterName":"a","replicas":0}}`:                                                   0,
		`{"spec":{"clusterName":"a","autoScaling":{"min":2,"max":9}},"status":{"replicas":7}}`:        7,
		`{"spec":{"clusterName":"a","autoScaling":{"min":2,"max":9}},"status":{}}`:                    2,
		`{"spec":{"clusterName":"a","replicas":3,"autoScaling":{"max":9}},"status":{"replicas":1}}`:   1,
		`{"spec":{"clusterName":"a","replicas":1000000},"unknown":{"x":[]},"metadata":{"name":"p1"}}`: 1_000_000,
	} {
		p, err := ParseNodePool("clusters", []byte(text))
		if err != nil || p.Nodes() != want || p.Namespace != "clusters" || p.Spec.ClusterName != "a" {
			t.Errorf("%s: %+v of %d nodes, %v; want %d", text, p, p.Nodes(), err, want)
		}
	}
	for text, want := range map[string]string{
		`{"spec":{"replicas":3}}`:                                "spec.clusterName is empty",
		`{"spec":{"clusterName":"a","replicas":-1}}`:             "has -1 nodes",
		`{"spec":{"clusterName":"a","replicas":1000001}}`:        "has 1000001 nodes",
		`{"spec":{"clusterName":"a","replicas":"3"}}`:            "decode",
		`{"spec":{"clusterName":"a","replicas":1.5}}`:            "decode",
		`{"spec":{"clusterName":"a","autoScaling":{"min":-7}},`:  "decode",
		`{"spec":{"clusterName":"a","autoScaling":{"min":1e9}}}`: "decode",
		``: "decode",
	} {
		if p, err := ParseNodePool("clusters", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error with %q", text, p, err, want)
		}
	}
}

func TestPlan(t *testing.T) {
	pool := func(namespace, cluster string, nodes int64) NodePool {
		p := NodePool{Namespace: namespace}
		p.Spec.ClusterName, p.Spec.Replicas = cluster, &nodes
		return p
	}
	plan, choices := NewPlan(defaults(), all(), []HostedCluster{
		{Namespace: "clusters", Name: "a"},
		{Namespace: "clusters", Name: "b.example.com"},
		{Namespace: "clusters", Name: "out", Annotations: map[string]string{OptOutKey: "true"}},
		{Namespace: "clusters", Name: "gold", Annotations: map[string]string{override + "etcd-priority-class": "gold"}},
		{Namespace: "x-y", Name: "z"},
		{Namespace: "x", Name: "y-z"},
	}, []NodePool{
		pool("clusters", "a", 10), pool("clusters", "a", 1), pool("others", "a", 500), pool("clusters", "", 500), pool("x", "y-z", 11),
	})
	sizes := make([]string, 0, len(choices))
	for _, c := range choices {
		sizes = append(sizes, c.Size)
	}
	if d := cmp.Diff([]string{"s", "xs", "", "xs", "xs", "s"}, sizes); d != "" {
		t.Errorf("sizes (-want +got):\n%s", d)
	}
	for _, c := range []struct {
		namespace string
		role      Role
		class     string
		reason    Reason
	}{
		{"clusters-a", ControlPlane, "hypershift-s", Sized},
		{"clusters-a", APICritical, "hypershift-s", Sized},
		{"clusters-a", Etcd, "hypershift-etcd-s", Sized},
		{"clusters-b-example-com", Etcd, "hypershift-etcd-xs", Sized},
		{"clusters-out", Etcd, "", OptedOut},
		{"clusters-gold", Etcd, "gold", Overridden},
		{"clusters-gold", ControlPlane, "hypershift-xs", Sized},
		{"clusters", Etcd, "", NoCluster},
		{"x-y-z", Etcd, "", Ambiguous},
	} {
		if class, reason := plan.Class(c.namespace, c.role); class != c.class || reason != c.reason {
			t.Errorf("class of %s in %s = %q, %s; want %q, %s", c.role, c.namespace, class, reason, c.class, c.reason)
		}
	}
	if len(choices[4].Problems) != 1 || choices[4].Problems[0].Kind != Ambiguous || choices[5].Problems[0].Kind != Ambiguous {
		t.Errorf("problems of clusters in one namespace: %+v, %+v", choices[4].Problems, choices[5].Problems)
	}
}

func TestRoleOf(t *testing.T) {
	for class, want := range map[string]string{
		"hypershift-control-plane": "control-plane", "hypershift-api-critical": "api-critical", "hypershift-etcd": "etcd",
		"hypershift-operator": "", "system-cluster-critical": "", "system-node-critical": "", "": "", "hypershift-s": "", "hypershift-etcd-s": "", "gold": "",
	} {
		role, ok := RoleOf(class)
		if ok != (want != "") || ok && role.String() != want {
			t.Errorf("RoleOf(%q) = %s, %t; want %q", class, role, ok, want)
		}
	}
}

// TestOperatorRewritesTemplate checks that pods keep the class of their creation although
// another operator owns their template. The cluster network operator writes
// hypershift-control-plane into the Deployment multus-admission-controller of a hosted cluster
// (openshift/cluster-network-operator at 01bb6a41139e), and undoes all changes of it.
func TestOperatorRewritesTemplate(t *testing.T) {
	cluster := HostedCluster{Namespace: "clusters", Name: "a", Annotations: map[string]string{}}
	// admit returns the class that a new pod with a class gets, and records the choice.
	admit := func(nodes int64, class string) string {
		pool := NodePool{Namespace: cluster.Namespace}
		pool.Spec.ClusterName, pool.Spec.Replicas = cluster.Name, &nodes
		plan, choices := NewPlan(defaults(), all(), []HostedCluster{cluster}, []NodePool{pool})
		for key, value := range choices[0].Record(cluster.Annotations) {
			if delete(cluster.Annotations, key); value != nil {
				cluster.Annotations[key] = *value
			}
		}
		if role, hosted := RoleOf(class); hosted {
			if given, _ := plan.Class(cluster.ControlPlaneNamespace(), role); given != "" {
				return given
			}
		}
		return class
	}
	for _, step := range []struct {
		nodes          int64
		template, want string
	}{
		{8, "hypershift-control-plane", "hypershift-xs"},
		{30, "hypershift-control-plane", "hypershift-m"}, // restored by the operator, and the cluster has grown
		{3, "hypershift-control-plane", "hypershift-m"},  // the size never decreases
		{3, "hypershift-api-critical", "hypershift-m"},
		{3, "system-cluster-critical", "system-cluster-critical"}, // the operator's class outside of HyperShift
	} {
		pod := admit(step.nodes, step.template)
		if pod != step.want {
			t.Errorf("%d nodes, template with %s: pod has class %s; want %s", step.nodes, step.template, pod, step.want)
		}
		// The API server asks again after other webhooks, with the pod as it is now.
		if again := admit(step.nodes, pod); again != pod {
			t.Errorf("%d nodes: a pod with class %s gets %s when it is reviewed again", step.nodes, pod, again)
		}
	}
}
