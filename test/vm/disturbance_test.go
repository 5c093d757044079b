//go:build vm

package vm_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var (
	disturbances = flag.Int("disturbance", 0, "CPU handovers in each mode of TestDisturbance")
	modes        = flag.String("disturbance.modes", "", "modes to count, with commas between; all if empty")
)

// TestDisturbance counts the effects of CPU handovers on another container, on all kernels with partitions.
func TestDisturbance(t *testing.T) {
	if *disturbances == 0 {
		t.Skip("counts for bench/results/handover.md: make test-disturbance")
	}
	for _, suite := range []string{"trixie", "forky"} {
		t.Run(suite, func(t *testing.T) {
			// A thread for each CPU, which a bare kernel does not have: CPUs that spin would keep the others waiting for a tenth of a second.
			m := vm.Start(t, vm.Config{Topology: "8c2n", Suite: suite})
			vm.RunTests(t, m, "./guest/disturbance", fmt.Sprintf("-handovers=%d", *disturbances), "-modes="+*modes)
		})
	}
}
