//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestPartition runs the tests of partitions on the newest kernel: from 7.0 on siblings
// cannot break them. TestCgroup covers an earlier kernel.
func TestPartition(t *testing.T) {
	leave(t)
	vm.RunKernelTests(t, "./guest/cgroup", vm.Config{Topology: "8c2n", Suite: "forky"}, "-test.run=^(TestConformance|TestRealTree|TestPartition.*)$")
}
