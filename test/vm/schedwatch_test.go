//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestSchedwatch loads the eBPF program of the live audit on each kernel, and compares its counts with the kernel's.
func TestSchedwatch(t *testing.T) {
	for _, s := range matrix.Suites() {
		t.Run(s.Name, func(t *testing.T) {
			leave(t)
			vm.RunKernelTests(t, "./guest/schedwatch", vm.Config{Topology: "4c1n", Suite: s.Name})
		})
	}
}
