package audit

import (
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Affinity asks the kernel where a task may run (sched_getaffinity(2)). It costs a
// twentieth of reading /proc/PID/task/TID/status. CPUs that are offline are not in it.
func Affinity(tid int) (cpuset.Set, error) {
	mask := make(unix.CPUSetDynamic, cpuset.MaxCPUs/maskWidth)
	if err := unix.SchedGetaffinityDynamic(tid, mask); err != nil {
		return cpuset.Set{}, err
	}
	return fromMask(mask), nil
}

// maskWidth is how many CPUs a word of a mask has.
const maskWidth = 8 * int(unsafe.Sizeof(unix.CPUSetDynamic{}[0]))

// fromMask is the set of the bits of a mask.
func fromMask(mask unix.CPUSetDynamic) cpuset.Set {
	cpus := make([]int, 0, 256) // this and the mask are on the stack: there are thousands of tasks
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			cpus = append(cpus, i*maskWidth+bits.TrailingZeros64(uint64(word)))
		}
	}
	return cpuset.Of(cpus...)
}
