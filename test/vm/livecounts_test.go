//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestLiveCounts compares the counts of the live audit with ftrace on each kernel, with and without the kernel's type information.
func TestLiveCounts(t *testing.T) {
	for _, s := range matrix.Suites() {
		t.Run(s.Name, func(t *testing.T) {
			leave(t)
			for name, arg := range map[string]string{"btf": "-btf=true", "tracepoint": "-btf=false"} {
				t.Run(name, func(t *testing.T) {
					vm.RunKernelTests(t, "./guest/live", vm.Config{Topology: "4c1n", Suite: s.Name}, arg)
				})
			}
		})
	}
}
