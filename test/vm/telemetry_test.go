//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestTelemetry scrapes metrics from a real kernel.
func TestTelemetry(t *testing.T) {
	leave(t)
	vm.RunKernelTests(t, "./guest/telemetry", vm.Config{Topology: "8c2n"})
}
