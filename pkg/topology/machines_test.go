package topology_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/testing/machines"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestMachines checks that Read returns the topology of real machines, with the expected
// warnings and no others.
func TestMachines(t *testing.T) {
	for _, m := range machines.All(t) {
		t.Run(m.Name, func(t *testing.T) {
			got, err := topology.Read(m.Sysfs())
			if err != nil {
				t.Fatal(err)
			}
			checkInvariants(t, got)
			if diff := cmp.Diff(m.Topology(), got, cmpopts.IgnoreFields(topology.Topology{}, "Warnings")); diff != "" {
				t.Errorf("Read (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(m.Warnings, got.Warnings, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b string) bool { return strings.Contains(a, b) || strings.Contains(b, a) })); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
