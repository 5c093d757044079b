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
			if kept := d.kept(it); !kept.IsEmpty() { // until the items in it have left these CPUs
				if cpus := it.want.Union(kept); !it.request.Equal(cpus) && d.contested(it, cpus).IsEmpty() {
					d.writeStep(it, cpus)
					progress = true
				}
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

// unblock emits a step if all remaining items wait for each other: the least disturbing step
// that lets an item continue. It reports whether it has emitted one. An item is moved only off
// CPUs that another item waits for, and not while a pending update may free them. After
// a refusal by a recorder or the kernel, no item is moved to CPUs that only the refused write
// would let it leave again.
func (d *differ) unblock() bool {
	demand := d.demand()
	refused := false
	for _, it := range d.items {
		if !it.moves || it.Around || !it.holds().Overlaps(demand.of(it)) {
			continue
		}
		if !it.pending.IsEmpty() {
			return false
		}
		refused = refused || it.current.NoRecord || it.current.NoWrite || it.current.left(FileCPUs)
	}
	if d.takePart(demand) || d.persistSteps(demand) || d.withdraw(demand) {
		return true
	}
	return !refused && (d.halve(demand) || d.park(demand))
}

// demand are the CPUs that the waiting items want and cannot have: any of them, and CPUs for
// exclusive items.
type demand struct {
	any, exclusive cpuset.Set
}

func (d *differ) demand() demand {
	var w demand
	for _, it := range d.items {
		if it.placed || !it.moves {
			continue
		}
		taken := d.contested(it, it.want)
		w.any = w.any.Union(taken)
		if it.Exclusive {
			w.exclusive = w.exclusive.Union(taken.Difference(it.Mixed))
		}
		for cpu := range taken.All() {
			if d.wakesOwner(it, cpu) {
				w.exclusive = w.exclusive.Union(cpuset.Of(cpu))
			}
		}
	}
	return w
}

// of returns the CPUs that other items want the item to leave. The CPUs of an exclusive item
// block all others. Other items, and the shared CPUs of an exclusive item, block only
// exclusive items.
func (w demand) of(it *item) cpuset.Set {
	if it.Exclusive {
		return w.any.Difference(it.Mixed).Union(w.exclusive)
	}
	return w.exclusive
}

func (d *differ) waiting(it *item) bool {
	return it.moves && !it.placed && !it.Around && (it.raw || it.recordOnly())
}

// recordOnly reports whether the item has only recorded values, which can be changed.
func (it *item) recordOnly() bool { return !it.current.Exists && it.canPersist() }

// takePart moves items to the part of their target that they have or that is
// free already: cgroups first, then items that only have recorded values.
func (d *differ) takePart(w demand) bool {
	progress := false
	for _, record := range []bool{false, true} {
		for _, it := range d.items {
			if it.recordOnly() != record || !d.waiting(it) || !it.holdsRaw().Difference(it.want).Overlaps(w.of(it)) {
				continue
			}
			part := it.want.Intersection(it.reachable())
			part = part.Difference(d.contested(it, part))
			if part.IsEmpty() {
				continue
			}
			d.writeStep(it, part)
			progress = true
		}
		if progress {
			return true
		}
	}
	return false
}

// holdsRaw returns the CPUs that a step alone makes the item leave: the CPUs that its raw write
// changes, or its recorded CPUs without a cgroup.
func (it *item) holdsRaw() cpuset.Set {
	if it.recordOnly() {
		return it.holds()
	}
	return it.effective.Union(it.request)
}

// persistSteps records the narrowed requests of items whose older record
// blocks other items.
func (d *differ) persistSteps(w demand) bool {
	progress := false
	for _, it := range d.items {
		if !it.moves || it.Around || it.persisted || !it.canPersist() {
			continue
		}
		step := it.request
		if !it.raw {
			step = it.recorded.Intersection(it.want)
		}
		stale := it.recorded.Union(it.unit, it.pending).Difference(step)
		if step.IsEmpty() || !stale.Overlaps(w.of(it)) {
			continue
		}
		d.writePersist(it, step, it.step())
		progress = true
	}
	return progress
}

// withdraw narrows requests to the effective CPUs. A unit that waits for the slice around it
// may request CPUs that the slice does not have. Another item may wait for these CPUs while
// the slice waits for that item. Tasks only leave CPUs of other owners.
func (d *differ) withdraw(w demand) bool {
	progress := false
	for _, it := range d.items {
		if !d.waiting(it) || it.recordOnly() || it.effective.IsEmpty() || !it.request.Difference(it.effective).Overlaps(w.of(it)) {
			continue
		}
		d.writeStep(it, d.unowned(it, it.effective))
		progress = true
	}
	return progress
}

// unowned returns the CPUs among cpus without the CPUs of other owners. If no CPU remains, it returns
// cpus. An owner that ran on more CPUs before is narrowed to its CPUs at once. Until the other items
// leave these CPUs, the owner shares them.
func (d *differ) unowned(it *item, cpus cpuset.Set) cpuset.Set {
	if rest := cpus.Difference(d.options.Owned.Difference(it.want)); !rest.IsEmpty() {
		return rest
	}
	return cpus
}

// mustLeave reports whether other items need all CPUs that the item runs on.
func (d *differ) mustLeave(it *item, w demand) bool {
	return d.waiting(it) && it.running().Overlaps(w.of(it)) && !it.running().Overlaps(it.want)
}

// halve narrows an item that must leave all its CPUs to fewer of them, so that
// others can move and make place for it.
func (d *differ) halve(w demand) bool {
	for _, exclusive := range []bool{false, true} { // non-exclusive items suffer less
		for _, it := range d.items {
			if it.Exclusive != exclusive || !d.mustLeave(it, w) {
				continue
			}
			keep := d.unowned(it, it.running().Difference(w.of(it)))
			if keep.IsEmpty() {
				keep = d.unowned(it, it.running()).Take(1)
			}
			if keep.Equal(it.running()) {
				continue
			}
			d.writeStep(it, keep)
			return true
		}
	}
	return false
}

// park moves an exclusive item to a spare CPU, so that others can go on.
func (d *differ) park(w demand) bool {
	spare := d.options.Spare.Difference(w.any)
	for _, it := range d.items {
		if !it.Exclusive || !d.mustLeave(it, w) {
			continue
		}
		free := spare
		if !it.recordOnly() { // its parent is there
			free = spare.Intersection(it.current.ParentEffective)
		}
		if free = free.Difference(d.contested(it, free)).Take(1); free.IsEmpty() {
			continue
		}
		d.writeStep(it, free)
		return true
	}
	return false
}
