//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestPartition runs what is of partitions on the newest kernel: from 7.0 on they cannot
// be broken by siblings. TestCgroup has one before that.
func TestPartition(t *testing.T) {
	leave(t)
	vm.RunKernelTests(t, "./guest/cgroup", vm.Config{Topology: "8c2n", Suite: "forky"}, "-test.run=^(TestConformance|TestRealTree|TestPartition.*)$")
}
