// Package tsc measures the rate of the host's time stamp counter.
//
// Under QEMU's emulation, TCG, the guest's counter is the host's. A guest kernel measures the
// rate at boot by emulated timers. On a busy host the result was 428 MHz instead of 2596: the
// guest's clock ran six times too fast, so its programs timed out. The guest's kernel takes
// the rate from its command line instead.
package tsc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	interval = 50 * time.Millisecond // of one measurement
	attempts = 20                    // of one reading of both clocks
)

// MHz returns the rate in MHz, 0 if the host has no such counter. It measures once, for 50 ms.
var MHz = sync.OnceValue(func() int { //nolint:gochecknoglobals // all guests of a process get the same value
	if counter() == 0 {
		return 0
	}
	time0, ticks0 := read()
	time.Sleep(interval)
	time1, ticks1 := read()
	return int(float64(ticks1-ticks0)/float64(time1-time0)*1e3 + 0.5)
})

// read returns a time in nanoseconds and the counter at this time. The process can be
// interrupted between the readings, so the shortest of several attempts counts.
func read() (at int64, ticks uint64) {
	shortest := int64(-1)
	for range attempts {
		before := now()
		count := counter()
		if d := now() - before; shortest < 0 || d < shortest {
			shortest, at, ticks = d, before+d/2, count
		}
	}
	return at, ticks
}

// now returns the nanoseconds of a clock whose rate NTP does not change.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
