package cgroup_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestPartitionable checks that targets with shared CPUs are no partitions.
func TestPartitionable(t *testing.T) {
	mixed := cgroup.Target{Exclusive: true, Mixed: cpuset.Of(2)}
	if mixed.Partitionable() || mixed.Unpartitionable() == "" {
		t.Error("an owner with shared CPUs is partitionable, or the reason is missing")
	}
	if (&cgroup.Target{}).Partitionable() || !(&cgroup.Target{Exclusive: true}).Partitionable() {
		t.Error("a shared target is partitionable, or an exclusive one is not")
	}
}
