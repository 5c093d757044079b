package view

import (
	"context"
	"errors"
	"maps"
	"net"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Counts counts passes and writes by their results, for metrics. The zero value has neither.
type Counts struct {
	passes     map[telemetry.Result]uint64
	results    map[telemetry.Write]uint64
	errors     map[telemetry.WriteError]uint64
	partitions uint64 // writes of cpuset.cpus.partition that the kernel has accepted
}

// AddPass counts a pass, by the faults that it has left.
func (c *Counts) AddPass(faults map[cgroup.Path]error) {
	if c.passes == nil {
		c.passes = make(map[telemetry.Result]uint64)
	}
	c.passes[passResult(faults)]++
}

// passResult returns the result of a pass. It is Unavailable if the runtime or systemd did not
// answer, and all faults have that cause.
func passResult(faults map[cgroup.Path]error) telemetry.Result {
	if len(faults) == 0 {
		return telemetry.OK
	}
	for _, err := range faults {
		_, noSystemd := errors.AsType[*net.OpError](err)
		if !noSystemd && !errors.Is(err, cri.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			return telemetry.Failed
		}
	}
	return telemetry.Unavailable
}

// AddWrite counts a write. A write whose cgroup has ended is no failure.
func (c *Counts) AddWrite(w cgroup.Write, err error) {
	if c.results == nil {
		c.results, c.errors = make(map[telemetry.Write]uint64), make(map[telemetry.WriteError]uint64)
	}
	result := telemetry.OK
	switch {
	case err == nil && w.Property == cgroup.FilePartition:
		c.partitions++
	case err != nil && !hostenv.IsGone(err):
		result = telemetry.Failed
		c.errors[telemetry.WriteError{Via: string(w.Via), Errno: errno(err)}]++
	}
	c.results[telemetry.Write{Via: string(w.Via), Result: result}]++
}

// Report copies the counts into the metrics.
func (c *Counts) Report(v *telemetry.View) {
	v.Passes, v.Writes, v.WriteErrors, v.PartitionChanges = maps.Clone(c.passes), maps.Clone(c.results), maps.Clone(c.errors), c.partitions
}

func errno(err error) string {
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
