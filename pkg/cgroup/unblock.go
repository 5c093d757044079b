package cgroup

import "github.com/cpupoold/cpupoold/pkg/cpuset"

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
// the slice waits for that item. The CPUs of running tasks do not change.
func (d *differ) withdraw(w demand) bool {
	progress := false
	for _, it := range d.items {
		if !d.waiting(it) || it.recordOnly() || it.effective.IsEmpty() || !it.request.Difference(it.effective).Overlaps(w.of(it)) {
			continue
		}
		d.writeStep(it, it.effective)
		progress = true
	}
	return progress
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
			keep := it.running().Difference(w.of(it))
			if keep.IsEmpty() {
				keep = it.running().Take(1)
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
