package cgroup

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// giveWay is for the case that all who are left wait for each other. It emits
// the least disturbing step that lets somebody go on, and says whether there was
// one. Nobody is disturbed for CPUs that nobody waits for, nor while a seal is in
// flight whose end may free them; and when a recorder or the kernel has refused,
// nobody is sent where only the refused write would let him leave again.
func (d *differ) giveWay() bool {
	demand := d.demand()
	refused := false
	for _, it := range d.items {
		if !it.moves || it.Around || !it.holds().Overlaps(demand.of(it)) {
			continue
		}
		if !it.pending.IsEmpty() {
			return false
		}
		refused = refused || it.current.NoSeal || it.current.NoWrite || it.current.left(FileCPUs)
	}
	if d.takePart(demand) || d.sealSteps(demand) || d.withdraw(demand) {
		return true
	}
	return !refused && (d.halve(demand) || d.park(demand))
}

// demand is what the waiting items want and cannot have: any of them, and those who want
// it for themselves.
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

// of are the CPUs that others want the item to leave: an exclusive one is in
// everybody's way, another one only in that of those who are exclusive, and so is an
// exclusive one on what it shares.
func (w demand) of(it *item) cpuset.Set {
	if it.Exclusive {
		return w.any.Difference(it.Mixed).Union(w.exclusive)
	}
	return w.exclusive
}

func (d *differ) waiting(it *item) bool {
	return it.moves && !it.placed && !it.Around && (it.raw || it.recordOnly())
}

// recordOnly says that the item is nothing but a record, which can be changed.
func (it *item) recordOnly() bool { return !it.current.Exists && it.canSeal() }

// takePart moves items to the part of their target that they have or that is
// free already: cgroups first, and what is only a record if there are none.
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

// holdsRaw is what a step alone makes the item leave: what its raw write changes,
// or its record if that is all there is.
func (it *item) holdsRaw() cpuset.Set {
	if it.recordOnly() {
		return it.holds()
	}
	return it.effective.Union(it.request)
}

// sealSteps records what the items have been narrowed to, where their older
// record keeps others from going on.
func (d *differ) sealSteps(w demand) bool {
	progress := false
	for _, it := range d.items {
		if !it.moves || it.Around || it.sealed || !it.canSeal() {
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
		d.writeSeal(it, step, it.step())
		progress = true
	}
	return progress
}

// withdraw narrows requests to what has come of them: a unit that waits for the slice
// around it may name CPUs that the slice has not got, and somebody wait for those whose
// own are what the slice waits for. Nothing changes for who runs there.
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

// mustLeave says that the item is in the way with all that it runs on.
func (d *differ) mustLeave(it *item, w demand) bool {
	return d.waiting(it) && it.running().Overlaps(w.of(it)) && !it.running().Overlaps(it.want)
}

// halve narrows an item that must leave all its CPUs to fewer of them, so that
// others can move and make place for it.
func (d *differ) halve(w demand) bool {
	for _, exclusive := range []bool{false, true} { // those who share suffer less
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
