package allocate_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/machines"
	"github.com/cpupoold/cpupoold/pkg/allocate"
)

// TestMachines checks on real machines with SMT that full-pcpus-only gives owners whole cores
// until no core is left.
func TestMachines(t *testing.T) {
	tested := 0
	for _, m := range machines.All(t) {
		topo := m.Topology()
		if topo.ThreadsPerCore() == 1 {
			continue
		}
		tested++
		t.Run(m.Name, func(t *testing.T) {
			machine := allocate.New(topo)
			supply := machine.Supply(topo.Online)
			for size := machine.Group(); !supply.Free().IsEmpty(); size += machine.Group() {
				size = min(size, supply.Free().Len())
				got, err := supply.Take(allocate.Request{CPUs: size, Options: allocate.Options{FullPCPUsOnly: true}})
				if err != nil {
					t.Fatalf("%d of CPUs %s: %v", size, supply.Free(), err)
				}
				if shape := machine.Shape(got); shape.SplitCores != 0 || shape.CPUs != size {
					t.Errorf("%d CPUs = %s, which split %d cores; want whole cores", size, got, shape.SplitCores)
				}
			}
		})
	}
	if tested < 10 {
		t.Errorf("%d machines have SMT; want at least 10", tested)
	}
}
