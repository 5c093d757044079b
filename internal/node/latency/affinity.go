package latency

import (
	"os"
	"strconv"

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
			mask := unix.NewCPUSet(rest.Last() + 1)
			for cpu := range rest.All() {
				mask.Set(cpu)
			}
			_ = unix.SchedSetaffinityDynamic(tid, mask) // the thread may have ended
		}
	}
}
