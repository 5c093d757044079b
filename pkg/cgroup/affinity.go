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

// Inside implements Threads. An idle daemon calls it for each thread of each container, so it
// builds no set from the mask.
func (rootTree) Inside(tid int, cpus cpuset.Set) (bool, error) {
	var mask unix.CPUSet // for 1024 CPUs; the kernel returns EINVAL for more
	err := unix.SchedGetaffinity(tid, &mask)
	if err == unix.EINVAL {
		large := unix.NewCPUSet(maxCPUs)
		err = unix.SchedGetaffinityDynamic(tid, large)
		return inMask(large, cpus), err
	}
	return inMask(mask[:], cpus), err
}

// inMask reports whether all CPUs of a mask are among cpus.
func inMask[W ~uint32 | ~uint64](mask []W, cpus cpuset.Set) bool {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			if !cpus.Contains(i*8*int(unsafe.Sizeof(word)) + bits.TrailingZeros64(uint64(word))) {
				return false
			}
		}
	}
	return true
}

// Unbind implements Threads.
func (rootTree) Unbind(tid int) error {
	mask := unix.NewCPUSet(maxCPUs)
	mask.Fill()
	return unix.SchedSetaffinityDynamic(tid, mask)
}
