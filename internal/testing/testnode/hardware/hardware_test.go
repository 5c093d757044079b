package hardware_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func TestTopology(t *testing.T) {
	m, err := hardware.Parse("packages=2 cores=1 threads=2 small=1 offline=3 isolated=4-5 bare=1")
	if err != nil {
		t.Fatal(err)
	}
	fast, small, all := topology.Performance, topology.Efficiency, cpuset.Range(0, 5)
	whole := []topology.Group{{ID: 0, CPUs: cpuset.Of(0, 2, 4)}, {ID: 1, CPUs: cpuset.Of(1, 5)}}
	want := &topology.Topology{
		Possible: all, Present: all, Online: cpuset.Of(0, 1, 2, 4, 5), Isolated: cpuset.Of(4, 5),
		CPUs: []topology.CPU{
			{ID: 0, Kind: fast},
			{ID: 1, Kind: fast, Core: 2, L3: 1, Die: 1, Package: 1, Node: 1},
			{ID: 2, Kind: fast},
			{ID: 4, Kind: small, Core: 1},
			{ID: 5, Kind: small, Core: 3, L3: 1, Die: 1, Package: 1, Node: 1},
		},
		Cores: []topology.Group{
			{ID: 0, CPUs: cpuset.Of(0, 2)}, {ID: 4, CPUs: cpuset.Of(4)}, {ID: 1, CPUs: cpuset.Of(1)}, {ID: 5, CPUs: cpuset.Of(5)},
		},
		L3s: whole, Dies: whole, Packages: whole,
		Nodes: []topology.Node{
			{ID: 0, CPUs: cpuset.Of(0, 2, 4), Distances: []int{10, 20}, HasMemory: true},
			{ID: 1, CPUs: cpuset.Of(1, 5), Distances: []int{20, 10}},
		},
	}
	if diff := cmp.Diff(want, m.Topology()); diff != "" {
		t.Errorf("topology (-want +got):\n%s", diff)
	}
}

func TestParseErrors(t *testing.T) {
	for _, text := range []string{"cores=x", "offline=3-1", "sockets=2"} {
		if m, err := hardware.Parse(text); err == nil {
			t.Errorf("Parse(%q) = %+v; want an error", text, m)
		}
	}
}
