package latency

import (
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// leave moves the threads of this process off the measured CPUs. A new thread inherits the CPUs of the thread that
// starts it. A thread that may run on no other CPU stays: its work is then part of the result.
func leave(measured cpuset.Set) {
	for range 2 { // a thread may have started another one during the first reading
		entries, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			allowed, err := audit.Affinity(tid)
			rest := allowed.Difference(measured)
			if err != nil || rest.IsEmpty() || rest.Equal(allowed) {
				continue
			}
			_ = unix.SchedSetaffinityDynamic(tid, mask(rest)) // the thread may have ended
		}
	}
}

func mask(cpus cpuset.Set) unix.CPUSetDynamic {
	const width = 8 * int(unsafe.Sizeof(unix.CPUSetDynamic{}[0]))
	m := make(unix.CPUSetDynamic, cpus.Last()/width+1)
	for cpu := range cpus.All() {
		m[cpu/width] |= 1 << (cpu % width)
	}
	return m
}
