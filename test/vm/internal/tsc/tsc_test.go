package tsc_test

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/test/vm/internal/tsc"
)

// TestMHz compares the rate with a longer measurement. TestNode of test/vm compares it with
// the rate that a guest's kernel uses.
func TestMHz(t *testing.T) {
	got := tsc.MHz()
	if runtime.GOARCH != "amd64" {
		if got != 0 {
			t.Errorf("rate is %d MHz on %s; want 0", got, runtime.GOARCH)
		}
		return
	}
	begin, first, begun := now(t), tsc.Counter(), now(t)
	time.Sleep(200 * time.Millisecond)
	end, last, ended := now(t), tsc.Counter(), now(t)
	// The process can be interrupted between two readings, so the time has two bounds.
	const tolerance = 0.002
	megaticks := float64(last-first) / 1e6
	least, most := megaticks/(ended-begin).Seconds()*(1-tolerance), megaticks/(end-begun).Seconds()*(1+tolerance)
	if rate := float64(got); rate < least || rate > most {
		t.Errorf("rate is %d MHz; want %.1f to %.1f", got, least, most)
	}
}

// now returns the time of a clock whose rate NTP does not change.
func now(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}
