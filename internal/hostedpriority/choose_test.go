package hostedpriority

import (
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
	for name, c := range map[string]struct {
		table       Table
		have        PriorityClasses
		annotations map[string]string
		nodes       int64
		want        Choice
	}{
		"no nodes": {nodes: 0, want: Choice{Size: "xs", Classes: size("xs")}},
		"counted":  {nodes: 26, want: Choice{Size: "m", Classes: size("m")}},
		"never lowered": {nodes: 0, annotations: map[string]string{SizeKey: "l"},
			want: Choice{Size: "l", Classes: size("l")}},
		"raised": {nodes: 101, annotations: map[string]string{SizeKey: "l"}, want: Choice{Size: "xl", Classes: size("xl")}},
		"was of a size that is gone": {nodes: 11, annotations: map[string]string{SizeKey: "huge"},
			want: Choice{Size: "s", Classes: size("s")}},
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
			want: Choice{Size: "s", Classes: [3]string{"", "", "hypershift-etcd-s"}, Problems: []Problem{
				{Kind: ClassDiffers, Text: "PriorityClass hypershift-s has the value 1, and not 2000000"}, {Kind: ClassDiffers, Text: "PriorityClass hypershift-s has the value 1, and not 2000000"}}}},

		"no sizes": {table: Table{dedicated: false, values: true}, annotations: map[string]string{SizeKey: "l", override + "etcd-priority-class": "gold"},
			want: Choice{Classes: [3]string{Etcd: "gold"}, Overridden: [3]bool{Etcd: true}}},
		"HyperShift's sizes, small": {table: sizing, nodes: 10, want: Choice{Size: "small", Classes: [3]string{"gold", "", ""}}},
		"HyperShift's sizes, large": {table: sizing, nodes: 11, want: Choice{Size: "large", Classes: [3]string{"gold", "", "hypershift-etcd-xl"}}},
		"HyperShift's sizes, dedicated": {table: sizing, annotations: map[string]string{DedicatedKey: "true"},
			want: Choice{Size: "small", Classes: [3]string{"gold", "", ""}, Problems: []Problem{{Kind: BadAnnotation, Text: "no size is the dedicated one"}}}},
	} {
		if c.table.sizes == nil && !c.table.values {
			c.table = defaults()
		}
		if c.have == nil {
			c.have = all()
		}
		got := Choose(c.table, c.have, HostedCluster{Namespace: "clusters", Name: "a", Annotations: c.annotations}, c.nodes)
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
