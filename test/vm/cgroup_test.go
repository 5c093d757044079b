//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestCgroup runs pkg/cgroup on a real kernel.
func TestCgroup(t *testing.T) {
	leave(t)
	vm.RunKernelTests(t, "./guest/cgroup", vm.Config{Topology: "8c2n"})
}

// TestSystemd runs the D-Bus half of pkg/cgroup on a real systemd.
func TestSystemd(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n"})
	vm.RunTests(t, m, "./guest/systemd")
}
