package hostenv

import (
	"context"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Record makes a write that takes its time; it runs in a worker.
func (h *Host) Record(ctx context.Context, w cgroup.Write) error {
	switch w.Via {
	case cgroup.DBus:
		return h.Units.Apply(ctx, w)
	case cgroup.File:
		return h.Cgroups.Apply(w)
	}
	set, err := cpuset.Parse(w.Value)
	switch {
	case err != nil:
		return err
	case w.Property == cgroup.CRIMems:
		return h.Runtime.UpdateMems(ctx, w.Container, set)
	}
	return h.Runtime.UpdateCPUs(ctx, w.Container, set)
}
