package tune

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// SystemAffinity is the kernel's own.
type SystemAffinity struct{}

// Get is sched_getaffinity(2).
func (SystemAffinity) Get(pid int) (cpuset.Set, error) {
	mask := unix.NewCPUSet(cpuset.MaxCPUs)
	if err := unix.SchedGetaffinityDynamic(pid, mask); err != nil {
		return cpuset.Set{}, err
	}
	var cpus []int
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			cpus = append(cpus, i*8*int(unsafe.Sizeof(word))+bits.TrailingZeros64(uint64(word)))
		}
	}
	return cpuset.Of(cpus...), nil
}

// Set is sched_setaffinity(2).
func (SystemAffinity) Set(pid int, cpus cpuset.Set) error {
	mask := unix.NewCPUSet(cpuset.MaxCPUs)
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	return unix.SchedSetaffinityDynamic(pid, mask)
}
