package hostedpriority

import (
	"math"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// FuzzChoose checks that pods get an existing class that is not the system's, for any
// annotations. The size is never below the recorded size. An unknown recorded size stays, with a
// problem. A second Record has no changes.
func FuzzChoose(f *testing.F) {
	f.Add("true", "false", "s", "gold", "", "", int64(11))
	f.Add("", "true", "", "", "", "system-node-critical", int64(0))
	f.Add("x", "y", "dedicated", "hypershift-etcd", "A", "hypershift-operator", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, out, dedicated, size, plane, api, etcd string, nodes int64) {
		annotations := map[string]string{}
		for key, value := range map[string]string{
			OptOutKey: out, DedicatedKey: dedicated, SizeKey: size,
			ControlPlane.OverrideKey(): plane, APICritical.OverrideKey(): api, Etcd.OverrideKey(): etcd,
		} {
			if value != "-" { // the annotation is missing
				annotations[key] = value
			}
		}
		table, have := defaults(), all()
		c := Choose(table, have, HostedCluster{Annotations: annotations}, nodes)
		for _, role := range Roles() {
			class, reason := c.Class(role)
			value, there := have[class]
			if class != "" && (!there || value > HighestValue || strings.HasPrefix(class, "system-")) {
				t.Errorf("%s gets class %q, of value %d, there: %t", role, class, value, there)
			}
			if c.OptedOut != (reason == OptedOut) || c.OptedOut && class != "" {
				t.Errorf("%s gets class %q because of %s; opted out: %t", role, class, reason, c.OptedOut)
			}
		}
		if c.OptedOut {
			return
		}
		switch recorded := annotations[SizeKey]; {
		case recorded != "" && table.index(recorded) < 0: // it may be larger than every size of the table
			if c.Size != recorded || !slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Kind == UnknownSize }) {
				t.Errorf("size %q after the unknown size %q; problems: %v", c.Size, recorded, c.Problems)
			}
		case table.index(c.Size) < table.index(recorded) || table.index(c.Size) < table.counted(nodes):
			t.Errorf("size %s with %d nodes after %s", c.Size, nodes, recorded)
		}
		for key, value := range c.Record(annotations) {
			delete(annotations, key)
			if value != nil {
				annotations[key] = *value
			}
		}
		again := Choose(table, have, HostedCluster{Annotations: annotations}, 0)
		if more := again.Record(annotations); len(more) > 0 || again.Size != c.Size || again.Classes != c.Classes {
			t.Errorf("once more: %+v, which writes %v; before %+v", again, more, c)
		}
	})
}

// FuzzParseNodePool checks that a decoded pool has a plausible number of nodes.
func FuzzParseNodePool(f *testing.F) {
	f.Add(`{"spec":{"clusterName":"a","replicas":3}}`)
	f.Add(`{"spec":{"clusterName":"a","autoScaling":{"min":2}},"status":{"replicas":7}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseNodePool("clusters", []byte(text))
		if err == nil && (p.Nodes() < 0 || p.Nodes() > 1_000_000 || p.Spec.ClusterName == "") {
			t.Errorf("%s: %+v of %d nodes", text, p, p.Nodes())
		}
	})
}

// FuzzParseSizing checks that an accepted table has one size for each number of nodes, and that
// a larger number never has a smaller size.
func FuzzParseSizing(f *testing.F) {
	f.Add(`{"spec":{"sizes":[{"name":"a","criteria":{"from":0,"to":10}},{"name":"b","criteria":{"from":11},"effects":{"etcdPriorityClassName":"c"}}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ParseSizing([]byte(text))
		if err != nil {
			return
		}
		ascending(t, table)
		for _, r := range table.sizes {
			for _, c := range r.classes {
				if c.Name != "" && badClass(c.Name) != "" {
					t.Errorf("size %s has class %q", r.name, c.Name)
				}
			}
		}
	})
}

// FuzzCheck checks that accepted sizes are in order, by nodes and by values.
func FuzzCheck(f *testing.F) {
	c := Default()
	text, err := yaml.Marshal(c.Sizes)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("[{name: a, controlPlane: {name: p, value: -1}, apiCritical: {name: r, value: 0}, etcd: {name: e, value: 7}}]")
	f.Add("[{name: a, maxNodes: 3, controlPlane: {name: p, value: 1}, etcd: {name: e, value: 1000000000}}, {name: b, dedicated: true}]")
	f.Fuzz(func(t *testing.T, text string) {
		c := Config{SizesFrom: FromConfig}
		if yaml.Unmarshal([]byte(text), &c.Sizes) != nil {
			t.Skip("no sizes")
		}
		if len(problems(c)) > 0 {
			return
		}
		table := c.Table()
		counted := table
		if table.dedicated {
			counted.sizes = table.sizes[:len(table.sizes)-1]
		}
		ascending(t, counted)
		names, values := map[string]bool{}, map[int64]bool{}
		for i, r := range table.sizes {
			for _, role := range Roles() {
				class := r.classes[role]
				if role == APICritical && class == r.classes[ControlPlane] {
					continue
				}
				if names[class.Name] || values[class.Value] || strings.HasPrefix(class.Name, "system-") || len(class.Name) > 253 || class.Value > HighestValue {
					t.Errorf("class %+v of %s occurs twice, or must not be", class, r.name)
				}
				names[class.Name], values[class.Value] = true, true
				if i > 0 && class.Value <= table.sizes[i-1].classes[role].Value {
					t.Errorf("%s of %s has value %d, that of the size before %d", role, r.name, class.Value, table.sizes[i-1].classes[role].Value)
				}
			}
			if r.classes[Etcd].Value <= r.classes[ControlPlane].Value || r.classes[Etcd].Value <= r.classes[APICritical].Value {
				t.Errorf("etcd of %s does not go last: %+v", r.name, r.classes)
			}
		}
		if strings.Count(c.Manifests(), "\nkind: PriorityClass\n") != len(names) {
			t.Errorf("%d classes, and manifests:\n%s", len(names), c.Manifests())
		}
	})
}

func ascending(t *testing.T, table Table) {
	t.Helper()
	for i, r := range table.sizes {
		if i > 0 && r.max <= table.sizes[i-1].max {
			t.Errorf("size %s ends at %d, the one before at %d", r.name, r.max, table.sizes[i-1].max)
		}
	}
	if table.counted(math.MaxInt64) != len(table.sizes)-1 || table.counted(0) != 0 {
		t.Errorf("sizes %+v leave out numbers of nodes", table.sizes)
	}
}
