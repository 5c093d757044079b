package kernelstate

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// SameRequests says that nobody has written other values to the files of a cgroup.
func SameRequests(a, b cgroup.State) bool {
	if a.HasCPUSet != b.HasCPUSet || a.HasCPU != b.HasCPU || !a.CPUs.Equal(b.CPUs) || !a.Mems.Equal(b.Mems) ||
		a.Partition != b.Partition || a.Weight != b.Weight || a.Idle != b.Idle || a.Quota != b.Quota || a.Period != b.Period {
		return false
	}
	if a.Inner == nil || b.Inner == nil {
		return a.Inner == b.Inner
	}
	return SameRequests(*a.Inner, *b.Inner)
}
