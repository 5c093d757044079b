package tune

import (
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// SystemAffinity implements [Affinity] with sched_setaffinity(2).
type SystemAffinity struct{}

// Set implements [Affinity].
func (SystemAffinity) Set(pid int, cpus cpuset.Set) error {
	mask := unix.NewCPUSet(cpuset.MaxCPUs)
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(pid, mask)
}
