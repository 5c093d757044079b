package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/statickubelet"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// restoreOriginals writes the originals, and saves the remaining ones.
func restoreOriginals(ctx context.Context, h *hostenv.Host, j undo.Document) (Report, error) {
	var parts []undo.Original
	var kubeletErr error
	j.Originals, kubeletErr = statickubelet.Originals(ctx, h, j.Originals)
	j.Originals = slices.DeleteFunc(slices.Clone(j.Originals), func(o undo.Original) bool {
		if isOfPartition(o) {
			parts = append(parts, o)
		}
		return isOfPartition(o)
	})
	// Partitions first: a cpuset that overlaps a partition makes it invalid.
	r, left := unpartition(ctx, h, withParking(h, parts))
	var parkErr error
	if !slices.ContainsFunc(left, func(o undo.Original) bool { return partition.IsParking(o.Path) }) {
		parkErr = h.Cgroups.RemoveParking()
	}
	// A CRI update of CPUs or memory nodes makes the runtime write its whole spec, weight
	// and quota included. So weight and quota follow.
	isEarly := func(o undo.Original) bool { return o.File == cgroup.FileCPUs || o.File == cgroup.FileMems }
	late := slices.DeleteFunc(slices.Clone(j.Originals), isEarly)
	j.Originals = append(slices.DeleteFunc(j.Originals, func(o undo.Original) bool { return !isEarly(o) }), late...)
	failed := make(map[undo.Key]error)
	for _, o := range j.Originals {
		if err := writeOriginal(ctx, h, o); err != nil {
			failed[o.Key()] = err
		}
	}
	rest := undo.Document{BootID: j.BootID, Accepted: j.Accepted, Originals: left}
	for _, o := range j.Originals {
		err := failed[o.Key()]
		st, readErr := o.Now(ctx, h)
		if errors.Is(readErr, cgroup.ErrGone) && err == nil {
			if r.Gone++; o.Unit != "" {
				rest.Originals = append(rest.Originals, o) // systemd keeps the property until the machine boots
			}
			continue
		}
		if err = cmp.Or(err, readErr); err != nil {
			rest.Originals = append(rest.Originals, o)
		}
		if d, differs := o.Difference(h, st, err); differs {
			r.Differs = append(r.Differs, d)
		} else {
			r.Restored = append(r.Restored, o)
		}
	}
	if len(rest.Originals) == 0 {
		return r, errors.Join(kubeletErr, parkErr, undo.File{Name: h.JournalFile, RunDir: h.RunDir}.Remove(j.BootID))
	}
	return r, errors.Join(kubeletErr, parkErr, undo.File{Name: h.JournalFile}.Save(rest))
}

// writeOriginal also records the value with the runtime or systemd, which would overwrite it.
func writeOriginal(ctx context.Context, h *hostenv.Host, o undo.Original) error {
	ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
	defer cancel()
	if o.Unit != "" {
		return revert(ctx, h, o)
	}
	value, record, err := restoring(h, o)
	if err != nil {
		return err
	}
	err = h.Cgroups.Write(o.Path, o.File, value)
	if errors.Is(err, cgroup.ErrGone) && o.Container == "" {
		return nil // the settings have ended with the cgroup
	}
	if record == nil {
		return err
	}
	recordErr := h.Record(ctx, *record)
	if hostenv.IsGone(recordErr) {
		recordErr = nil
	}
	if recordErr == nil {
		return nil // the runtime or systemd has written the file too
	}
	return errors.Join(err, recordErr)
}

// revert restores a property of a systemd unit, whether or not the unit runs.
func revert(ctx context.Context, h *hostenv.Host, o undo.Original) error {
	if h.Units == nil {
		return fmt.Errorf("no systemd to give %s its %s back", o.Unit, o.File)
	}
	err := h.Units.Revert(ctx, o.Unit, o.Properties(), h.Nodes)
	if errors.Is(err, cgroup.ErrGone) {
		return nil // the unit does not exist any more
	}
	return err
}

// restoring returns the value, and the write that records it; nil if neither manages the cgroup.
func restoring(h *hostenv.Host, o undo.Original) (value string, record *cgroup.Write, err error) {
	w := cgroup.Write{Path: o.Path, Container: o.Container, Via: cgroup.DBus, Reason: "restore"}
	value = o.Value
	switch o.File {
	case cgroup.FileCPUs, cgroup.FileMems:
		set, err := cpuset.Parse(o.Value)
		if err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
		all, unitProperty, criProperty := h.Possible, cgroup.UnitCPUs, cgroup.CRICPUs
		if o.File == cgroup.FileMems {
			all, unitProperty, criProperty = h.Nodes, cgroup.UnitMems, cgroup.CRIMems
		}
		if set.IsEmpty() {
			set = all // kernels before 7.0 refuse to clear, and runtimes cannot
		}
		value = set.String()
		w.Property, w.Value = unitProperty, value
		if o.Container != "" {
			w.Via, w.Property = cgroup.CRI, criProperty
			return value, &w, nil
		}
	case cgroup.FileWeight:
		if o.Value == "0" {
			return "", nil, fmt.Errorf("journal: original of %s in %s: weight 0", o.File, o.Path)
		}
		w.Property, w.Value = cgroup.UnitWeight, o.Value
	case cgroup.FileMax:
		w.Property = cgroup.UnitQuota
		if w.Value, err = unitQuota(o.Value); err != nil {
			return "", nil, fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
		}
	default:
		return "", nil, fmt.Errorf("journal: original of unknown file %q in %s", o.File, o.Path)
	}
	if _, isUnit := o.Path.Unit(); h.Units == nil || !isUnit {
		return value, nil, nil
	}
	return value, &w, nil
}

// unitQuota converts a value of cpu.max to CPUQuotaPerSecUSec, in microseconds per second.
func unitQuota(value string) (string, error) {
	q, p, ok := strings.Cut(value, " ")
	if q == cgroup.ValueMax {
		return cgroup.ValueInf, nil
	}
	quota, err1 := strconv.ParseUint(q, 10, 63)
	period, err2 := strconv.ParseUint(p, 10, 31)
	if !ok || err1 != nil || err2 != nil || period == 0 || quota > 1<<40 {
		return "", fmt.Errorf("%q is not a value of cpu.max", value)
	}
	return strconv.FormatUint(quota*1_000_000/period, 10), nil
}
