package cgroup

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// A slice of host services may contain units that are placed separately
// (Target.Around). The kernel bounds them by the slice's set, so that
//
//   - the slice is widened before they are moved, and narrowed after they have left,
//   - the slice waits for a CPU that an owner in it has requested, until others have left the CPU,
//   - the slice takes no CPUs from the units, and the units none from the slice: the set of the
//     slice must contain the exclusive CPUs of its units.
//
// A unit without exclusive CPUs is part of the slice until it is placed. No item waits for the
// slice. Before the slice is confined, all other tasks have shared its CPUs. A slice that
// cannot be narrowed must not block the CPUs of containers.

// A pod's slice has CPUs while a container of the pod writes its own cpuset.cpus in a loop,
// and gets its former CPUs or all CPUs afterwards. The kernel bounds the container by the
// slice, so that
//
//   - other cgroups get the CPUs that the container requests beyond the slice,
//   - the slice is widened although others have some of its new CPUs, if nothing in the pod
//     asks for these,
//   - the other containers of the pod do not wait for it, because others may wait for them.

// awaitsOuter reports whether the item cannot have its CPUs before the slice around it has
// them.
func (it *item) awaitsOuter() bool {
	return it.outer != nil && !it.outer.placed && it.outer.raw && !it.want.IsSubsetOf(it.reachable())
}

// within applies the CPUs that the slice around an item has got.
func (it *item) within(parent cpuset.Set) {
	if !it.current.Exists {
		return
	}
	if it.current.Partition.Valid() {
		parent = parent.Union(it.effective) // the kernel takes them from the slice
	}
	it.current.ParentEffective = parent
	if it.effective = it.request.Intersection(parent); it.effective.IsEmpty() {
		it.effective = parent
	}
}

// kept returns the surplus CPUs that a slice keeps until the units and containers in it
// have left them. Without these CPUs, they would run on all CPUs of the slice. A pod's slice keeps
// no CPUs for a container that gets a part of its request. It also keeps none for a container
// whose repairs pause and that may run on all CPUs of the slice. The slice exists to take CPUs
// from such a container.
func (d *differ) kept(it *item) cpuset.Set {
	var all cpuset.Set
	for _, in := range it.inner {
		if it.Confines() && (in.fits(it.want) || in.stays && d.contested(in, it.want).IsEmpty()) {
			continue
		}
		all = all.Union(in.request, in.recorded, in.unit, in.pending)
	}
	return all.Intersection(it.effective).Difference(it.want)
}

// fits reports whether the item gets a part of its request from a slice, and a part of the CPUs
// that a pending update sets. An item without a request runs on all CPUs of the slice already.
func (it *item) fits(slice cpuset.Set) bool {
	if it.request.IsEmpty() {
		return true
	}
	return it.request.Overlaps(slice) && (it.pending.IsEmpty() || it.pending.Overlaps(slice))
}

// reportAround defers an item that waits for the slice around it, or a slice that waits for items in it.
func (d *differ) reportAround(it *item) bool {
	if it.awaitsOuter() {
		d.postpone(it.Target, FileCPUs, fmt.Sprintf("waits until %s has CPUs %s", it.outer.Path, it.want), it.outer.Path)
		return true
	}
	kept := d.kept(it)
	if kept.IsEmpty() || !d.contested(it, it.want).IsEmpty() {
		return false
	}
	var waitsFor []Path
	for _, in := range it.inner {
		if in.holds().Overlaps(kept) {
			waitsFor = append(waitsFor, in.Path)
		}
	}
	d.postpone(it.Target, FileCPUs, fmt.Sprintf("waits until the cgroups in it leave CPUs %s", kept), waitsFor...)
	return true
}

// bounded returns the part of the requested CPUs that an item can get: a pod's slice with
// CPUs bounds it. The CPUs that systemd has recorded for the slice count as CPUs of the slice.
func (it *item) bounded(cpus cpuset.Set) cpuset.Set {
	if it.outer == nil || !it.outer.Confines() || it.outer.request.IsEmpty() {
		return cpus
	}
	o := it.outer
	return cpus.Intersection(o.request.Union(o.recorded, o.unit, o.pending))
}

// widen gives a slice the part of its containers' or units' CPUs that others have left. A
// container or unit that waits for this part may be in the way of the others.
func (d *differ) widen() bool {
	for _, it := range d.items {
		if !it.Around || it.placed || !it.raw {
			continue
		}
		var wanted cpuset.Set
		for _, in := range it.inner {
			wanted = wanted.Union(in.want)
		}
		free := wanted.Intersection(it.want).Intersection(it.reachable()).Difference(d.contested(it, it.want))
		if !free.IsSubsetOf(it.effective) {
			d.writeStep(it, it.effective.Union(free))
			return true
		}
	}
	return false
}

// passedOn returns the CPUs among added on which processes run when the item gets them. The
// slice of a pod itself has no processes, and its containers get only CPUs of their requests.
func (it *item) passedOn(added cpuset.Set) cpuset.Set {
	if !it.Confines() {
		return added
	}
	var asked cpuset.Set
	for _, in := range it.inner {
		if in.current.Exists && in.request.IsEmpty() {
			return added
		}
		asked = asked.Union(in.request, in.recorded, in.unit, in.pending)
	}
	return added.Intersection(asked)
}

// defies reports whether another process writes the CPUs of the item in a loop, and the slice
// of its pod bounds the item.
func (it *item) defies() bool {
	return it.outer != nil && it.outer.Confines() && it.current.left(FileCPUs)
}

// defying returns the number of holders of a CPU that the item does not wait for, although
// contested counts them: items of the same pod that defy the daemon. Other pods may wait for
// the item.
func (d *differ) defying(it *item, cpu int) (n int32) {
	if it.outer == nil || !it.outer.Confines() {
		return 0
	}
	for _, other := range it.outer.inner {
		if other == it || !other.defies() || it.Group != "" && other.Group == it.Group {
			continue
		}
		held := other.alone()
		if it.Exclusive && !it.Mixed.Contains(cpu) {
			held = other.holds()
		}
		if held.Contains(cpu) {
			n++
		}
	}
	return n
}

// wakesOwner reports whether an owner in a slice would get a CPU with the slice that others have
// not left. Such an owner has already requested the CPU. Other containers of the owner's pod do
// not count. Other units in a slice of host services count.
func (d *differ) wakesOwner(it *item, cpu int) bool {
	wakes, inside := false, int32(0)
	for _, in := range it.inner {
		wakes = wakes || in.wakes(cpu)
		if it.Confines() && in.holds().Contains(cpu) {
			inside++
		}
	}
	if !it.Confines() {
		inside = 1 // the owner
	}
	return wakes && d.holders.of(cpu) > inside
}

// wakes reports whether the item is an owner that gets a CPU when the slice around it does. A unit
// whose request does not overlap the slice runs on all CPUs of the slice, and is no owner yet.
func (it *item) wakes(cpu int) bool {
	switch {
	case !it.Exclusive || it.Mixed.Contains(cpu):
		return false
	case it.outer.Confines():
		asked := it.request.Union(it.recorded, it.unit, it.pending)
		return asked.Contains(cpu) && !it.holds().Contains(cpu) && !it.defies()
	}
	return it.request.Contains(cpu) && !it.effective.Contains(cpu) && it.request.Overlaps(it.outer.effective)
}

// keepsFromOwner reports whether other holds one of the CPUs that an owner in the slice would get
// with the slice.
func (d *differ) keepsFromOwner(slice, other *item, cpus cpuset.Set) bool {
	if slice.Confines() && other.outer == slice {
		return false
	}
	for cpu := range other.holds().Intersection(cpus).All() {
		if d.wakesOwner(slice, cpu) && (other.outer != slice || !other.wakes(cpu)) {
			return true
		}
	}
	return false
}
