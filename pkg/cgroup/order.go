package cgroup

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// place emits the writes of cpusets: all possible raw writes, then the updates of
// recorders that are due, and again, since such an update may free CPUs. If no write is
// possible, unblock emits an extra step.
func (d *differ) place() {
	// Each step below brings one item nearer to its target for good; the bound
	// is there for the case that this reasoning has a hole.
	for range 16 + 8*len(d.items) {
		// A write that only removes CPUs is safe at any time.
		progress := d.writeAll(func(it *item) bool { return it.want.IsSubsetOf(it.effective) })
		for d.writeAll(func(it *item) bool { return d.contested(it, it.want).IsEmpty() }) || d.widen() {
			progress = true
		}
		if d.persist() {
			progress = true
		}
		if !progress && !d.unblock() {
			break
		}
	}
	d.report()
}

func (d *differ) writeAll(allowed func(*item) bool) bool {
	progress := false
	for _, around := range []bool{true, false} { // host services first, so that their CPUs are left when others come
		for _, it := range d.items {
			if it.Around != around || it.placed || !it.raw || it.awaitsOuter() || !allowed(it) {
				continue
			}
			if kept := d.kept(it); !kept.IsEmpty() {
				progress = d.writeAround(it, kept) || progress
				continue
			}
			d.writeFinal(it)
			progress = true
		}
	}
	return progress
}

// writeFinal emits the raw write of the item's target. crun's cgroup below a scope
// is narrowed before the scope and widened after it, so that its CPUs change
// once.
func (d *differ) writeFinal(it *item) {
	inner := innerDiffers(it.want, &it.current)
	innerFirst := inner && it.want.IsSubsetOf(it.effective)
	if innerFirst {
		d.emit(it, it.current.Inner.Path, File, FileCPUs, it.want.String(), it.Reason)
	}
	if !it.request.Equal(it.want) {
		d.emit(it, it.Path, File, FileCPUs, it.want.String(), it.Reason)
	}
	if inner && !innerFirst {
		d.emit(it, it.current.Inner.Path, File, FileCPUs, it.want.String(), it.Reason)
	}
	d.change(it, func() { it.written(it.want) })
	it.placed = true
}

// writeStep emits a raw write on the way to the item's target, or a record where
// that is all there is.
func (d *differ) writeStep(it *item, cpus cpuset.Set) {
	if it.recordOnly() {
		d.writePersist(it, cpus, it.step())
		if cpus.Equal(it.want) { // others have made way in the meantime
			it.placed, it.persisted = true, true
		}
		return
	}
	d.emit(it, it.Path, File, FileCPUs, cpus.String(), it.step())
	d.change(it, func() { it.written(cpus) })
}

func (it *item) step() string {
	reason := fmt.Sprintf("makes way before it gets %s", it.want)
	if it.Reason != "" {
		reason += ": " + it.Reason
	}
	return reason
}

// persist emits the updates of recorders that are due: for items whose request is written, and
// for items with recorded values alone. The updates of one call may run at the same
// time, so none of them may need CPUs that another one frees.
func (d *differ) persist() bool {
	var due []*item
	for _, it := range d.items {
		if it.persisted || !it.canPersist() {
			continue
		}
		if it.raw && it.placed || !it.raw && d.contested(it, it.want).IsEmpty() {
			due = append(due, it)
		}
	}
	progress := false
	for _, it := range due {
		if !it.raw && !d.contested(it, it.want).IsEmpty() {
			continue // another one of these took it
		}
		d.writePersist(it, it.want, it.Reason)
		it.placed, it.persisted = true, true
		progress = true
	}
	for _, it := range due {
		if it.persisted {
			d.mems(it)
			d.limits(it)
		}
	}
	return progress
}

func (d *differ) writePersist(it *item, cpus cpuset.Set, reason string) {
	it.persistCRI = it.persistCRI || it.via == CRI
	d.emit(it, it.Path, it.via, it.persistProperty(), cpus.String(), reason)
	d.change(it, func() { // which also writes the request
		it.recorded, it.unit, it.pending, it.unasked = cpus, cpus, cpuset.Set{}, false
		if it.current.Exists {
			it.written(cpus)
		}
	})
}

// report defers the remaining differences.
func (d *differ) report() {
	for _, it := range d.items {
		switch {
		case !it.moves || it.placed && it.persisted:
		case !it.placed && it.via != "" && !it.raw && it.current.NoRecord, it.placed && it.current.NoRecord:
			d.postpone(it.Target, it.persistProperty(), "its recorder refused in this pass")
		case !it.placed && d.reportAround(it):
		case !it.placed:
			taken := d.contested(it, it.want)
			d.postpone(it.Target, FileCPUs, fmt.Sprintf("waits until CPUs %s are left by others", taken), d.holding(it, taken)...)
		}
	}
}

func (it *item) persistProperty() string {
	if it.via == CRI {
		return CRICPUs
	}
	return UnitCPUs
}

// holding are the cgroups that keep the item from the CPUs.
func (d *differ) holding(it *item, cpus cpuset.Set) []Path {
	var paths []Path
	for _, other := range d.items {
		if other == it || !other.moves || other.Around {
			continue
		}
		if other.outer != it && other.keepsOff(it, cpus) || d.keepsFromOwner(it, other, cpus) {
			paths = append(paths, other.Path)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(d.options.Leaving)) {
		if d.options.Leaving[p].Overlaps(cpus) {
			paths = append(paths, p)
		}
	}
	return paths
}

// keepsOff reports whether the item holds some of the CPUs, and they are exclusive to the
// item or to other.
func (it *item) keepsOff(other *item, cpus cpuset.Set) bool {
	if it.Group != "" && it.Group == other.Group {
		return false
	}
	return it.alone().Overlaps(cpus) || other.Exclusive && it.holds().Overlaps(cpus.Difference(other.Mixed))
}

// String describes a deferred change in one line.
func (x Deferred) String() string {
	s := fmt.Sprintf("deferred %s %s", x.Property, x.Path)
	if x.Container != "" {
		s += " container=" + x.Container
	}
	s += " # " + x.Reason
	if len(x.WaitsFor) > 0 {
		s += fmt.Sprintf(": %v", x.WaitsFor)
	}
	return s
}
