package view

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const MilliPerCPU = 1000

// Errno names the error of a write that failed.
func Errno(err error) string {
	var number unix.Errno
	switch {
	case errors.As(err, &number):
		if name := unix.ErrnoName(number); name != "" {
			return name
		}
	case errors.Is(err, context.DeadlineExceeded):
		return telemetry.ErrnoTimeout
	}
	return telemetry.ErrnoOther
}

// RequestOf is the CPU request that the kubelet has made shares of; none for the least that
// there are.
func RequestOf(shares uint64) int64 {
	const none, sharesPerCPU = 2, 1024
	if shares <= none {
		return 0
	}
	return int64((shares*MilliPerCPU + sharesPerCPU - 1) / sharesPerCPU)
}

// Vacancy is what new owners could have beside those that there were.
type Vacancy struct {
	Machine *allocate.Machine
	Pool    cpuset.Set
	Options allocate.Options
	Owned   []pools.Assignment
	Room    telemetry.Room
}
