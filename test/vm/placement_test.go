//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestPlacement holds cpupoold's choices of CPUs against its options, on machines of several shapes, with real devices and containers.
func TestPlacement(t *testing.T) {
	for _, topology := range []string{"8c2n", "16c2s2t", "16c2d4l"} {
		t.Run(topology, func(t *testing.T) {
			m := vm.Start(t, vm.Config{Topology: topology, Node: true})
			installDaemon(t, m)
			vm.RunTests(t, m, "./guest/placement")
		})
	}
}
