package schedwatch

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch/account"
)

// memory is the kernel's array of CPUs, which the program shares. The program writes all fields but Since.
type memory []byte

const sizeOfCPU = int(unsafe.Sizeof(watchCpu{}))

func (m memory) cpu(cpu int) *watchCpu {
	return (*watchCpu)(unsafe.Pointer(&m[cpu*sizeOfCPU])) //nolint:gosec // within the memory, and aligned
}

// now returns the time of the program's clock, in nanoseconds.
func now() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // fails for unknown clocks only
	return uint64(ts.Nano())                         //nolint:gosec // since the boot
}

// stop ends the watch of a CPU, and returns its duration.
func (c *watchCpu) stop() time.Duration {
	return elapsed(atomic.SwapUint64(&c.Since, 0), now())
}

// elapsed returns the time since a moment, or 0 for no moment.
func elapsed(since, now uint64) time.Duration {
	if since == 0 || now < since {
		return 0
	}
	return time.Duration(now - since) //nolint:gosec // since the boot
}

func (c *watchCpu) counts() []account.Count {
	all := make([]account.Count, Kinds)
	for kind := range all {
		all[kind].Time = time.Duration(atomic.LoadUint64(&c.Ns[kind])) //nolint:gosec // less than the time since the boot
		all[kind].Switches = atomic.LoadUint64(&c.Switches[kind])
	}
	return all
}

// running returns the thread that runs on the CPU, and the time from which the program will count it.
// Both are 0 if the CPU has no watch, or had no switch since the watch began.
func (c *watchCpu) running() (tid int, begin uint64) {
	last, since := atomic.LoadUint64(&c.Last), atomic.LoadUint64(&c.Since)
	next := atomic.LoadUint32(&c.Next)
	if since == 0 || last < since || atomic.LoadUint64(&c.Last) != last {
		return 0, 0
	}
	return int(next), last
}
