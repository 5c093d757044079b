//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// shapes is what a machine of each topology must look like from inside.
var shapes = map[string][]string{
	"4c1n":    {"-cpus=0-3", "-nodes=0", "-sibling=0"},
	"8c2n":    {"-cpus=0-7", "-nodes=0-1", "-sibling=0"},
	"16c2s2t": {"-cpus=0-15", "-nodes=0-1", "-sibling=0-1"},
	"32c4n":   {"-cpus=0-31", "-nodes=0-3", "-sibling=0-1"},
}

// TestBoot boots a machine from power-on; TestNode continues one.
func TestBoot(t *testing.T) {
	m := vm.Start(t, vm.Config{Topology: "16c2s2t"})
	vm.RunTests(t, m, "./guest/boot", shapes["16c2s2t"]...)
}

// TestKernel has the topologies that TestBoot and TestNode leave.
func TestKernel(t *testing.T) {
	for _, topology := range []string{"4c1n", "32c4n"} {
		t.Run(topology, func(t *testing.T) {
			vm.RunKernelTests(t, "./guest/boot", vm.Config{Topology: topology}, shapes[topology]...)
		})
	}
}
