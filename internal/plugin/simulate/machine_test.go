package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// A description gives the regular machine of the daemon's tests, except for the numbers
// of packages and dies, which have the kernel's form here.
func TestDescribe(t *testing.T) {
	for text, m := range map[string]hardware.Machine{
		"2s8c2t":   {Packages: 2, Nodes: 1, L3s: 1, Cores: 8, Threads: 2},
		"6c":       {Packages: 1, Nodes: 1, L3s: 1, Cores: 6, Threads: 1},
		"2s2n3c2t": {Packages: 2, Nodes: 2, L3s: 1, Cores: 3, Threads: 2},
		"2s2n4l2c": {Packages: 2, Nodes: 2, L3s: 4, Cores: 2, Threads: 1},
		"1s4l8c2t": {Packages: 1, Nodes: 1, L3s: 4, Cores: 8, Threads: 2},
	} {
		got, err := simulate.Describe(text)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(m.Topology(), got, cmpopts.IgnoreFields(topology.Group{}, "ID")); diff != "" {
			t.Errorf("Describe(%q) (-want +got):\n%s", text, diff)
		}
	}
	got, err := simulate.Describe("2s2d2n2c")
	if err != nil {
		t.Fatal(err)
	}
	if got.Online.Len() != 16 || len(got.Dies) != 4 || got.Dies[2].ID != 0 || got.Dies[3].ID != 1 || len(got.Nodes) != 8 || got.Nodes[0].Distances[1] != 12 {
		t.Errorf("dies, nodes of 2s2d2n2c = %v, %v; want 4 and 8", got.Dies, got.Nodes)
	}
}

func TestDescribeErrors(t *testing.T) {
	for text, want := range map[string]string{
		"2s":         "no number of cores",
		"2s8":        `no count and letter at "8"`,
		"s8c":        `no count and letter at "s8c"`,
		"0s8c":       "count 0 is outside 1-8192",
		"8c2s":       `'s' stands behind 'c', which is inside it`,
		"2c2c":       `'c' occurs twice`,
		"8x":         `'x' is not known`,
		"99s99c":     "more than 8192 CPUs",
		"8192s8192c": "more than 8192 CPUs",
	} {
		if _, err := simulate.Describe(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Describe(%q): %v; want %s", text, err, want)
		}
	}
	for text, want := range map[string]bool{"2s8c2t": true, "8x": true, "": false, "8": false, "2s8c.xml": false, "status": false, "-": false} {
		if got := simulate.IsDescription(text); got != want {
			t.Errorf("IsDescription(%q) = %t; want %t", text, got, want)
		}
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/lstopo/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestLstopo reads files of lstopo (hwloc 2.9.0) about synthetic machines. Four files have the
// form of real machines: sub-NUMA clusters with memory of the package, Arm's numbers of packages,
// packages without a number, and a group of CPUs without memory.
func TestLstopo(t *testing.T) {
	for name, want := range map[string]string{
		"dies.xml":   "0-31: 16 cores, 2 L3s, 4 dies, 2 packages, nodes [0:0-31]",
		"caches.xml": "0-31: 16 cores, 4 L3s, 2 dies, 2 packages, nodes [0:0-15 1:16-31]",
		"order.xml":  "0-15: 8 cores, 4 L3s, 2 dies, 2 packages, nodes [0:0,4,8,12 1:1,5,9,13 2:2,6,10,14 3:3,7,11,15]",
		"wide.xml":   "0-35: 18 cores, 1 L3s, 1 dies, 1 packages, nodes [0:0-35]",
		// Restricted to one package: the node of the other has no CPUs.
		"restricted.xml":        "0-15: 8 cores, 2 L3s, 1 dies, 1 packages, nodes [0:0-15 1:]",
		"lstopo-snc-cxl.xml":    "0-7: 8 cores, 2 L3s, 2 dies, 2 packages, nodes [0:0-1 1:2-3 2:4-5 3:6-7 4: 5:]",
		"memoryless.xml":        "0-3: 4 cores, 2 L3s, 1 dies, 1 packages, nodes [0:0-1 1:2-3]",
		"arm-packages.xml":      "0-7: 8 cores, 2 L3s, 2 dies, 2 packages, nodes [0:0-3 1:4-7]",
		"no-package-number.xml": "0-7: 8 cores, 2 L3s, 2 dies, 2 packages, nodes [0:0-3 1:4-7]",
	} {
		m, err := simulate.Machine(read(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var nodes []string
		for _, n := range m.Nodes {
			nodes = append(nodes, fmt.Sprintf("%d:%s", n.ID, n.CPUs))
		}
		got := fmt.Sprintf("%s: %d cores, %d L3s, %d dies, %d packages, nodes %v", m.Online, len(m.Cores), len(m.L3s), len(m.Dies), len(m.Packages), nodes)
		if got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
}

func TestLstopoDetails(t *testing.T) {
	text := strings.Replace(string(read(t, "caches.xml")), `complete_cpuset="0xffffffff"`, `complete_cpuset="0x3,,0x0,0xffffffff"`, 1)
	text = strings.Replace(text, "</topology>", `<distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
<indexes length="4">1 0 </indexes><u64values length="12">10 31 </u64values><u64values length="12">32 11 </u64values></distances2>
<cpukind cpuset="0x0000000f"><info name="CoreType" value="IntelAtom"/></cpukind></topology>`, 1)
	m, err := simulate.ParseLstopo([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Present.Difference(m.Online).String(); got != "96-97" {
		t.Errorf("offline are %s; want 96-97", got)
	}
	if diff := cmp.Diff([][]int{{11, 32}, {31, 10}}, [][]int{m.Nodes[0].Distances, m.Nodes[1].Distances}); diff != "" {
		t.Errorf("distances (-want +got):\n%s", diff)
	}
	if small, _ := m.CPU(3); small.Kind != topology.Efficiency {
		t.Errorf("CPU 3 is %v; want %v", small.Kind, topology.Efficiency)
	}
}

// TestLstopoContradictions checks files with CPUs in two nodes of the same level, in no node, and
// with the capacities of Arm's cores.
func TestLstopoContradictions(t *testing.T) {
	good := string(read(t, "caches.xml"))
	for _, c := range []struct{ old, new, nodes, warning string }{
		{`type="NUMANode" os_index="1" cpuset="0xffff0000"`, `type="NUMANode" os_index="1" cpuset="0xffffffff"`, "[0:0-15 1:16-31]", "CPUs 0-15 are in several NUMA nodes"},
		{`type="NUMANode" os_index="0" cpuset="0x0000ffff"`, `type="NUMANode" os_index="0" cpuset="0x00000fff"`, "[0:0-11 1:16-31 2:12-15]", ""},
		{`</topology>`, `<cpukind cpuset="0x0000000f"><info name="LinuxCapacity" value="381"/></cpukind>
<cpukind cpuset="0xfffffff0"><info name="LinuxCapacity" value="1024"/></cpukind></topology>`, "[0:0-15 1:16-31]", ""},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		m, err := simulate.Machine([]byte(text))
		if err != nil || text == good {
			t.Errorf("%s: %v", c.new, err)
			continue
		}
		var nodes []string
		for _, n := range m.Nodes {
			nodes = append(nodes, fmt.Sprintf("%d:%s", n.ID, n.CPUs))
		}
		if got := fmt.Sprint(nodes); got != c.nodes {
			t.Errorf("%s: nodes %s; want %s", c.new, got, c.nodes)
		}
		if got := strings.Join(m.Warnings, "; "); (got == "") != (c.warning == "") || !strings.Contains(got, c.warning) {
			t.Errorf("%s: warnings %q; want %q", c.new, got, c.warning)
		}
		if small, _ := m.CPU(3); strings.Contains(c.new, "LinuxCapacity") && (small.Kind != topology.Efficiency || small.Capacity != 381) {
			t.Errorf("CPU 3 is %v of capacity %d; want %v of 381", small.Kind, small.Capacity, topology.Efficiency)
		}
	}
}

func TestLstopoErrors(t *testing.T) {
	good := string(read(t, "caches.xml"))
	for _, c := range []struct{ old, new, want string }{
		{`version="2.0"`, `version="1.0"`, `version "1.0"`},
		{`"PU" os_index="3"`, `"PU" os_index="x"`, `PU with os_index "x"`},
		{`"PU" os_index="3"`, `"PU" os_index="2"`, "CPU 2 occurs twice"},
		{`type="NUMANode" os_index="0"`, `type="NUMANode" os_index="-1"`, `NUMANode with os_index "-1"`},
		{`</topology>`, `<cpukind cpuset="0xf"><info name="LinuxCapacity" value="1e3"/></cpukind></topology>`, `LinuxCapacity "1e3" is not a number`},
		{`type="Machine"`, `type="Cluster"`, "no single object of type Machine"},
		{`</topology>`, ``, "XML syntax error"},
	} {
		bad := strings.Replace(good, c.old, c.new, 1)
		if _, err := simulate.Machine([]byte(bad)); bad == good || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.new, err, c.want)
		}
	}
}

// The output of `cpupoold topology -o json` gives the same machine, alone and in a status.
func TestSavedTopology(t *testing.T) {
	for _, m := range hardware.Small() {
		if m.Small > 0 || !m.Offline.IsEmpty() {
			continue // its groups are not in the order of their lowest CPUs
		}
		want := m.Topology()
		alone, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(alone), `{"version":1,"cpus":[{"id":0,"use":"pool"}],"topology":` + string(alone) + `}`} {
			got, err := simulate.Machine([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%+v (-want +got):\n%s", m, diff)
			}
		}
	}
	for text, want := range map[string]string{
		"":               "the file is empty",
		"pods":           "neither XML",
		"{}":             "no topology in it",
		`{"cpus":[{}]}`:  "number 0 of cores, which has 0",
		`{"cpus":"0-3"}`: "cannot unmarshal",
	} {
		if _, err := simulate.Machine([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Machine(%q): %v; want %s", text, err, want)
		}
	}
}

// A machine with CPUs that went offline is the one that was found with them offline.
func TestOffline(t *testing.T) {
	away := cpuset.Of(1, 4)
	for _, m := range hardware.Small() {
		if m.Small > 0 || !m.Offline.IsEmpty() {
			continue // as above
		}
		all := m
		all.Offline = cpuset.Set{}
		m.Offline = away
		got, err := simulate.Offline(all.Topology(), away)
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(m.Topology(), got, cmpopts.IgnoreFields(topology.Group{}, "ID"), cmpopts.SortSlices(func(a, b topology.Group) bool { return a.CPUs.First() < b.CPUs.First() }),
			cmpopts.IgnoreFields(topology.CPU{}, "Core", "L3", "Die", "Package")); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", m, diff)
		}
	}
	two, err := simulate.Describe("2c")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []cpuset.Set{cpuset.Of(7), cpuset.Of(0, 1)} {
		if _, err := simulate.Offline(two, bad); err == nil {
			t.Errorf("CPUs %s of two went offline; want an error", bad)
		}
	}
}
