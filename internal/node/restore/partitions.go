package restore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// isOfPartition reports whether an original belongs to a partition.
func isOfPartition(o undo.Original) bool {
	return o.File == cgroup.FilePartition || o.File == cgroup.FileExclusive
}

// unpartition ends partitions and clears their lists. Partitions that do not end, or whose CPUs are
// missing after LeakTime, are differences and left.
func unpartition(ctx context.Context, h *hostenv.Host, originals []undo.Original) (r Report, left []undo.Original) {
	var leaves []cgroup.Path
	for _, o := range originals {
		if o.File == cgroup.FilePartition {
			leaves = append(leaves, o.Path)
		}
	}
	stuck := make(map[cgroup.Path]string)
	view, err := endPartitions(ctx, h, leaves, stuck)
	for _, o := range originals {
		n, there := view.Nodes[o.Path]
		d := undo.Difference{Original: o, Now: n.State.String()}
		differs := !n.State.Is(cgroup.MemberPartition)
		if o.File == cgroup.FileExclusive {
			d.Now, differs = n.Exclusive.String(), !n.Exclusive.IsEmpty()
		}
		switch {
		case err != nil:
			d.Reason = err.Error()
		case !there:
			r.Gone++
			continue
		case !differs:
			r.Restored = append(r.Restored, o)
			continue
		case stuck[o.Path] != "":
			d.Reason = stuck[o.Path]
		default:
			d.Reason = "another partition in it has these CPUs, or the kernel has not returned them"
		}
		left = append(left, o)
		r.Differs = append(r.Differs, d)
	}
	return r, left
}

// unrecorded returns partitions that a daemon may have made before it lost its journal.
func unrecorded(h *hostenv.Host) (all []undo.Difference, err error) {
	listed, err := h.Cgroups.Listed()
	if err != nil {
		return nil, err
	}
	for _, p := range listed {
		if !p.Parent().InPod() || p.Parent().Parent().InPod() { // none, or made by a container
			continue
		}
		st, readErr := h.Cgroups.Read(p)
		switch {
		case errors.Is(readErr, cgroup.ErrGone):
			continue
		case readErr != nil:
			err = errors.Join(err, readErr)
			continue
		case st.Partition.Is(cgroup.MemberPartition):
			continue
		}
		all = append(all, undo.Difference{
			Original: undo.Original{Path: p, File: cgroup.FilePartition, Value: string(cgroup.MemberPartition)}, Now: st.Partition.String(),
			Reason: "not in the journal; if cpupoold made it before the journal was lost, run the daemon with guaranteed.isolation: partition, and restore again",
		})
	}
	return all, err
}

// endPartitions makes all accepted writes, and waits for CPUs that the kernel has not returned yet.
func endPartitions(ctx context.Context, h *hostenv.Host, leaves []cgroup.Path, stuck map[cgroup.Path]string) (cgroup.PartitionView, error) {
	tick := time.NewTicker(partition.FirstPause)
	defer tick.Stop()
	for deadline, steps := time.Now().Add(partition.LeakTime), 0; ; steps++ {
		view, err := h.Cgroups.ReadPartitions(leaves)
		if err != nil {
			return view, err
		}
		step := cgroup.PlanPartitions(cgroup.PartitionInput{Kernel: h.Kernel, Former: leaves, View: view, Online: h.Online(), Stuck: stuck})
		for _, w := range step.Writes {
			err := h.Cgroups.Apply(w.Write)
			if err == nil {
				continue
			}
			if !hostenv.IsGone(err) {
				stuck[w.Stuck()] = err.Error()
			}
			break // the next step starts from a new reading
		}
		if len(step.Writes) > 0 {
			if steps == partition.MaxSteps(len(leaves)) {
				return view, fmt.Errorf("partitions do not come to an end after %d steps: another process writes them, too; stop it and run restore again", steps)
			}
			if ctx.Err() != nil {
				return view, ctx.Err()
			}
			continue
		}
		if step.Missing.IsEmpty() || time.Now().After(deadline) {
			return view, nil
		}
		select {
		case <-ctx.Done():
			return view, ctx.Err()
		case <-tick.C:
		}
	}
}

// withParking adds the parking cgroup, which needs no journal because of its path.
func withParking(h *hostenv.Host, parts []undo.Original) []undo.Original {
	if _, err := h.Cgroups.Read(cgroup.Parking); errors.Is(err, cgroup.ErrGone) {
		return parts
	}
	for _, o := range []undo.Original{
		{Path: cgroup.ParkingTop, File: cgroup.FileExclusive},
		{Path: cgroup.Parking, File: cgroup.FileExclusive},
		{Path: cgroup.Parking, File: cgroup.FilePartition, Value: string(cgroup.MemberPartition)},
	} {
		if !slices.ContainsFunc(parts, func(p undo.Original) bool { return p.Key() == o.Key() }) {
			parts = append(parts, o)
		}
	}
	return parts
}

// partitionsLeft reports whether a daemon may have left partitions; false if unreadable.
func partitionsLeft(isolation config.Isolation) bool {
	fs, err := cgroup.Open(kernelfs.CgroupRoot)
	if err != nil {
		return false
	}
	if _, err = fs.Read(cgroup.ParkingTop); err == nil {
		return true
	}
	if isolation == config.IsolationCPUSet {
		return false
	}
	listed, err := fs.Listed()
	return err == nil && len(listed) > 0
}
