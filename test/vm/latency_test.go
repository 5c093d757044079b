//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestLatency runs the tracers osnoise and timerlat. Of Debian's kernels, only those with PREEMPT_RT have them.
func TestLatency(t *testing.T) {
	for _, suite := range []string{"bookworm", "trixie", "forky"} {
		t.Run(suite, func(t *testing.T) {
			leave(t)
			vm.RunKernelTests(t, "./guest/latency", vm.Config{Topology: "4c1n", Suite: suite, Kernel: "rt"})
		})
	}
}
