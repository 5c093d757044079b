package tune

import (
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// SystemAffinity is the kernel's own.
type SystemAffinity struct{}

// Set is sched_setaffinity(2).
func (SystemAffinity) Set(pid int, cpus cpuset.Set) error {
	mask := unix.NewCPUSet(cpuset.MaxCPUs)
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(pid, mask)
}
