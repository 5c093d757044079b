package cgroup

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxCPUs is the largest NR_CPUS that x86 and arm64 can be built with; the kernel
// refuses masks that are shorter than its own.
const maxCPUs = 8192

func (rootTree) Affinity(tid int) (cpuset.Set, error) {
	mask := unix.NewCPUSet(maxCPUs)
	if err := unix.SchedGetaffinityDynamic(tid, mask); err != nil {
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

func (rootTree) Unbind(tid int) error {
	mask := unix.NewCPUSet(maxCPUs)
	mask.Fill()
	return unix.SchedSetaffinityDynamic(tid, mask)
}
