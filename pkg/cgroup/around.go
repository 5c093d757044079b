package cgroup

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// A slice of host services may have units in it that are placed for themselves
// (Target.Around). The kernel bounds them by the slice's set, so that
//
//   - the slice is widened before they are moved, and narrowed after they have left,
//   - they take nothing from each other: what one of them has to itself is in the
//     slice's set because it has to be.
//
// A unit that has no CPUs of its own yet is part of the slice until it is placed.
// Nobody waits for the slice. What it runs on before it is confined everybody has
// shared with it all along, and a slice that cannot be narrowed must not keep
// containers from their CPUs.

// enclose finds the slice that an item is in.
func (d *differ) enclose(it *item, around map[Path]*item) {
	for p := it.Path.Parent(); p != ""; p = p.Parent() {
		if outer := around[p]; outer != nil {
			it.outer = outer
			outer.inner = append(outer.inner, it)
		}
	}
}

// awaitsOuter says that the item cannot have its CPUs before the slice around it has
// them.
func (it *item) awaitsOuter() bool {
	return it.outer != nil && !it.outer.placed && it.outer.raw && !it.want.IsSubsetOf(it.reachable())
}

// within is the effect of what the slice around an item has got.
func (it *item) within(parent cpuset.Set) {
	if !it.current.Exists {
		return
	}
	it.current.ParentEffective = parent
	if it.effective = it.request.Intersection(parent); it.effective.IsEmpty() {
		it.effective = parent
	}
}

// kept are the CPUs beyond its own that a slice keeps as long as somebody in it has
// not left them: without them he would run on all that the slice has.
func (it *item) kept() cpuset.Set {
	var all cpuset.Set
	for _, in := range it.inner {
		all = all.Union(in.request, in.recorded, in.unit, in.pending)
	}
	return all.Intersection(it.effective).Difference(it.want)
}

// writeAround emits the raw write of a slice in which somebody has not left what the
// slice is to lose.
func (d *differ) writeAround(it *item, kept cpuset.Set) bool {
	cpus := it.want.Union(kept)
	if it.request.Equal(cpus) || !d.contested(it, cpus).IsEmpty() {
		return false
	}
	d.writeStep(it, cpus)
	return true
}

// reportAround defers a slice, or what is in one, if that is what it waits for.
func (d *differ) reportAround(it *item) bool {
	if it.awaitsOuter() {
		d.postpone(it.Target, FileCPUs, fmt.Sprintf("waits until %s has CPUs %s", it.outer.Path, it.want), it.outer.Path)
		return true
	}
	kept := it.kept()
	if kept.IsEmpty() || !d.contested(it, it.want).IsEmpty() {
		return false
	}
	var waitsFor []Path
	for _, in := range it.inner {
		if in.holds().Overlaps(kept) {
			waitsFor = append(waitsFor, in.Path)
		}
	}
	d.postpone(it.Target, FileCPUs, fmt.Sprintf("waits until CPUs %s are left by what is in it", kept), waitsFor...)
	return true
}
