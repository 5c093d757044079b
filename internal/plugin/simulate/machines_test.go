package simulate_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/testing/machines"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestMachines checks that Machine returns the topology of real machines unchanged from the output
// of `cpupoold topology -o json`, with its warnings.
func TestMachines(t *testing.T) {
	for _, m := range machines.All(t) {
		t.Run(m.Name, func(t *testing.T) {
			want, err := topology.Read(m.Sysfs())
			if err != nil {
				t.Fatal(err)
			}
			checkJSON(t, want)
		})
	}
}

// TestUnnumberedPackages checks that packages and dies with equal numbers stay apart. The daemon
// printed -1 for all packages of s390x before it numbered them.
func TestUnnumberedPackages(t *testing.T) {
	m, err := simulate.Describe("2s2d2c")
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Packages {
		m.Packages[i].ID = -1
	}
	for i := range m.Dies {
		m.Dies[i].ID = -1
	}
	checkJSON(t, m)
}

func checkJSON(t *testing.T, want *topology.Topology) {
	t.Helper()
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := simulate.Machine(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Machine (-want +got):\n%s", diff)
	}
}
