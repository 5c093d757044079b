package simulate_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// checkMachine checks the consistency of a topology, and the properties that the
// allocator requires.
func checkMachine(t *testing.T, m *topology.Topology) {
	t.Helper()
	for _, groups := range [][]topology.Group{m.Cores, m.L3s, m.Dies, m.Packages} {
		n := 0
		for _, g := range groups {
			n += g.CPUs.Len()
		}
		if n != m.Online.Len() {
			t.Fatalf("CPUs in groups = %d; want %d", n, m.Online.Len())
		}
	}
	if len(m.CPUs) != m.Online.Len() || !m.Online.IsSubsetOf(m.Present) || !m.Present.IsSubsetOf(m.Possible) {
		t.Fatalf("CPUs = %d, online %s, present %s, possible %s; want subsets in this order", len(m.CPUs), m.Online, m.Present, m.Possible)
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	again, err := simulate.Machine(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if diff := cmp.Diff(m, again); diff != "" {
		t.Fatalf("read again (-was +is):\n%s", diff)
	}
}

func FuzzDescribe(f *testing.F) {
	for _, seed := range []string{"2s8c2t", "2s2d2n4l2c", "6c", "8x", "99s99c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := simulate.Describe(text)
		if err != nil {
			return
		}
		if !simulate.IsDescription(text) {
			t.Fatalf("IsDescription(%q) = false; want true", text)
		}
		if m.Online.Len() <= 256 {
			checkMachine(t, m)
		}
	})
}

func FuzzMachine(f *testing.F) {
	for _, name := range []string{"dies.xml", "order.xml", "restricted.xml"} {
		f.Add(read(f, name))
	}
	f.Add([]byte(`{"cpus":[{"id":0}],"cores":[{}],"l3s":[{}],"dies":[{}],"packages":[{}],"nodes":[{"distances":[10]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if m, err := simulate.Machine(data); err == nil {
			checkMachine(t, m)
		}
	})
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"at":"1m","add":"ran/du-0"}` + "\n\n" + `{"at":"2m","resize":"ran/du-0","container":"c","cpu":"2"}`))
	f.Add([]byte(`{"at":"0s","add":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"2","memory":"1Gi"}}}]}}}`))
	f.Add([]byte(`{"at":"5s","offline":"1-2"}` + "\n" + `{"at":"5s","online":"1"}` + "\n" + `{"at":"9s","remove":"p"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, err := simulate.ParseTrace(data, "default")
		if err != nil || len(events) > 20 {
			return
		}
		for i := range events {
			if events[i].String() == "online " {
				t.Fatalf("event %d is empty", i)
			}
		}
		m, err := simulate.Describe("2s2c2t")
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, m)
		if err != nil {
			t.Fatal(err)
		}
		n, err := simulate.NewNode(c, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Run(&simulate.Objects{}, events); err == nil {
			n.Document("")
		}
	})
}

// text is a configuration with all pools.
const text = `apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions:
- {type: management, cpus: "0", namespaces: [kube-system]}
guaranteed: {from: shared, floor: 2}
`
