//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestCRI runs pkg/cri on a real containerd.
func TestCRI(t *testing.T) {
	vm.RunTests(t, vm.Start(t, vm.Config{Node: true}), "./guest/cri")
}
