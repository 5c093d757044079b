package view

import (
	"context"
	"errors"
	"maps"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Writes counts writes by their results, for metrics. The zero value has no writes.
type Writes struct {
	results    map[telemetry.Write]uint64
	errors     map[telemetry.WriteError]uint64
	partitions uint64 // writes of cpuset.cpus.partition that the kernel has accepted
}

// Count counts a write. A write whose cgroup has ended is no failure.
func (c *Writes) Count(w cgroup.Write, err error) {
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
func (c *Writes) Report(v *telemetry.View) {
	v.Writes, v.WriteErrors, v.PartitionChanges = maps.Clone(c.results), maps.Clone(c.errors), c.partitions
}

// errno returns the name of the error of a failed write.
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
