package topology_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func TestLookUpsOfOfflineCPUs(t *testing.T) {
	topo, err := topology.Read(machine(t, "offline"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []int{-1, 1, 7, 8} {
		if cpu, ok := topo.CPU(id); ok {
			t.Errorf("CPU(%d) = %v; want none", id, cpu)
		}
		if set := topo.ThreadSiblings(id); !set.IsEmpty() {
			t.Errorf("ThreadSiblings(%d) = %s; want none", id, set)
		}
	}
	if got := (&topology.Topology{}).ThreadsPerCore(); got != 0 {
		t.Errorf("ThreadsPerCore of an empty topology = %d; want 0", got)
	}
}

// TestJSON fixes the form that `cpupoold topology -o json` prints.
func TestJSON(t *testing.T) {
	in := &topology.Topology{
		Possible: cpuset.Range(0, 3),
		Present:  cpuset.Range(0, 3),
		Online:   cpuset.Of(0),
		CPUs:     []topology.CPU{{ID: 0, Kind: topology.Efficiency, Capacity: 400}},
		Cores:    []topology.Group{{ID: 0, CPUs: cpuset.Of(0)}},
		Nodes:    []topology.Node{{ID: 2, CPUs: cpuset.Of(0), Distances: []int{10}, HasMemory: true}},
	}
	got, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"possible":"0-3","present":"0-3","online":"0","isolated":"","nohzFull":"",` +
		`"cpus":[{"id":0,"core":0,"l3":0,"die":0,"package":0,"node":0,"kind":"efficiency","capacity":400}],` +
		`"cores":[{"id":0,"cpus":"0"}],"l3s":null,"dies":null,"packages":null,` +
		`"nodes":[{"id":2,"cpus":"0","distances":[10],"hasMemory":true}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("Marshal (-want +got):\n%s", diff)
	}
	var out topology.Topology
	if err := json.Unmarshal(got, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in, &out); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
}

func TestCoreKindText(t *testing.T) {
	for _, kind := range []topology.CoreKind{topology.Unknown, topology.Performance, topology.Efficiency} {
		var back topology.CoreKind
		if err := back.UnmarshalText([]byte(kind.String())); err != nil || back != kind {
			t.Errorf("UnmarshalText(%q) = %v, %v; want the same kind", kind, back, err)
		}
	}
	var kind topology.CoreKind
	if err := kind.UnmarshalText([]byte("fast")); err == nil {
		t.Error(`UnmarshalText("fast"): no error`)
	}
}

// TestReadThisMachine reads the sysfs of whatever runs the test, if it is Linux.
func TestReadThisMachine(t *testing.T) {
	root, err := os.OpenRoot("/sys")
	if err != nil {
		t.Skipf("no sysfs here: %v", err)
	}
	defer root.Close()
	if _, err := root.Stat(filepath.Join("devices", "system", "cpu", "online")); err != nil {
		t.Skipf("no CPUs in sysfs: %v", err)
	}
	topo, err := topology.Read(root.FS())
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, topo)
}
