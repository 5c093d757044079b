//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestCgroup runs pkg/cgroup on a real kernel.
func TestCgroup(t *testing.T) {
	vm.RunKernelTests(t, "./guest/cgroup", vm.Config{Topology: "8c2n"})
}
