package audit

import (
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
	var words [cpuset.MaxCPUs / 64]uint64 // on the stack, as the mask is: there are thousands of tasks
	for i, word := range mask {
		bit := i * maskWidth
		words[bit/64] |= uint64(word) << (bit % 64)
	}
	return cpuset.FromWords(words[:])
}
