//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestConmon runs pods on a node whose CRI-O has the monitors of containers in the slices of the pods.
func TestConmon(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: "bookworm", Runtime: vm.Runtime{Name: "crio-runc", PodEvents: true}})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/conmon")
}
