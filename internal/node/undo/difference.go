package undo

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Difference is a file whose content is not the original value after a restore.
type Difference struct {
	Original
	Now string `json:"now"`
	// Harmless means that the difference has no effect: one value is all CPUs or NUMA nodes,
	// and the other is empty. The kernel treats both alike.
	Harmless bool   `json:"harmless"`
	Reason   string `json:"reason"`
}

// Now returns the present values of the original's cgroup, or systemd's for a unit.
func (o Original) Now(ctx context.Context, h *hostenv.Host) (cgroup.State, error) {
	if o.Unit == "" || h.Units == nil {
		return h.Cgroups.Read(o.Path)
	}
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	st, err := h.Units.Properties(ctx, o.Unit)
	return stateOf(st), err
}

// Difference compares the original with the present values. Failure is the error of the
// restore, if any. It reports whether there is a difference.
func (o Original) Difference(h *hostenv.Host, st cgroup.State, failure error) (d Difference, differs bool) {
	d = Difference{Original: o, Now: value(o.File, o.Unit, st)}
	if all, isSet := map[string]cpuset.Set{cgroup.FileCPUs: h.Possible, cgroup.FileMems: h.Nodes}[o.File]; isSet {
		d.Harmless = isAllOrNone(o.Value, all) && isAllOrNone(d.Now, all)
	}
	switch {
	case failure != nil:
		d.Reason = failure.Error()
		return d, true
	case d.Now == o.Value:
		return d, false
	case d.Harmless:
		d.Reason = "an empty set cannot be recorded again; all CPUs or NUMA nodes have the same effect"
	default:
		d.Reason = "another process has written it since, or the kernel rounded it"
	}
	return d, true
}

// isAllOrNone reports whether a cpuset.cpus or cpuset.mems is empty or all.
func isAllOrNone(value string, all cpuset.Set) bool {
	set, err := cpuset.Parse(value)
	return err == nil && (set.IsEmpty() || set.Equal(all))
}
