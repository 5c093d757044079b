package cgroup

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// mems emits the writes of the memory nodes, once for each item: right after its
// recorder's update, and before weight and quota, which an update over CRI resets. The file
// is written first, so that the daemon's worker waits while the kernel moves memory. Then
// systemd or the runtime have no memory to move.
func (d *differ) mems(it *item) {
	if it.bound || it.stays || !it.placed || !needsMems(it.Target, &it.current, d.options) {
		return
	}
	it.bound = true
	c, want := &it.current, usable(it.Mems, d.options)
	if want.IsEmpty() {
		d.postpone(it.Target, FileMems, fmt.Sprintf("none of the nodes %s has memory", it.Mems))
		return
	}
	switch {
	case c.left(FileMems):
		d.postpone(it.Target, FileMems, leftAlone)
		return
	case !memsDiffer(want, c):
	case c.NoWrite:
		d.postpone(it.Target, FileMems, "the kernel refused to write this cgroup in this pass")
		return
	case c.HasCPUSet:
		if !c.Mems.Equal(want) {
			d.emit(it, it.Path, File, FileMems, want.String(), it.Reason)
		}
		if innerMemsDiffer(want, c) {
			d.emit(it, c.Inner.Path, File, FileMems, want.String(), it.Reason)
		}
	case it.via == "":
		d.postpone(it.Target, FileMems, fmt.Sprintf("%q does not enable the cpuset controller for it", it.Path.Parent()))
	}
	if !forgetsMems(it.Target, want, c, d.options.Driver) {
		return
	}
	property := UnitMems
	if it.via == CRI {
		property = CRIMems
	}
	if c.NoRecord {
		d.postpone(it.Target, property, "its recorder refused in this pass")
		return
	}
	d.emit(it, it.Path, it.via, property, want.String(), it.Reason)
	it.persistCRI = it.persistCRI || it.via == CRI
}

// usable are the nodes of a target that have memory: for one that is not even
// possible the kernel would refuse them all.
func usable(mems cpuset.Set, o Options) cpuset.Set {
	if o.Nodes.IsEmpty() || mems.IsSubsetOf(o.Nodes) {
		return mems
	}
	return mems.Intersection(o.Nodes)
}

func needsMems(t *Target, c *Current, o Options) bool {
	if t.Mems.IsEmpty() {
		return false
	}
	want := usable(t.Mems, o)
	return want.IsEmpty() || memsDiffer(want, c) || forgetsMems(t, want, c, o.Driver)
}

func memsDiffer(want cpuset.Set, c *Current) bool {
	return c.Exists && (!c.Mems.Equal(want) || innerMemsDiffer(want, c))
}

func innerMemsDiffer(want cpuset.Set, c *Current) bool {
	return c.Inner != nil && !c.Inner.Mems.IsEmpty() && !c.Inner.Mems.Equal(want)
}

// forgetsMems reports whether the recorder of the cgroup's settings has other nodes.
func forgetsMems(t *Target, want cpuset.Set, c *Current, d Driver) bool {
	unit := c.Unit.Known && c.Unit.Mems.Equal(want)
	switch recorder(t, c, d) {
	case CRI:
		// As with CPUs: see needsPersist.
		return !c.RecordedKnown || !c.RecordedMems.Equal(want) || c.Exists && c.Unit.Known && unitOf(t, d) != "" && !unit
	case DBus:
		return !unit
	}
	return false
}

func verifyMems(t Target, s State) error {
	switch {
	case t.Mems.IsEmpty() || s.Mems.Equal(t.Mems) && s.EffectiveMems.Equal(t.Mems):
		return nil
	case !s.HasCPUSet:
		return fmt.Errorf("%s is not bound to the memory nodes %s: the parent does not enable the cpuset controller", s.Path, t.Mems)
	case !s.Mems.Equal(t.Mems):
		return fmt.Errorf("%s is not bound to the memory nodes %s: cpuset.mems is %q", s.Path, t.Mems, s.Mems)
	}
	return fmt.Errorf("%s has memory of the nodes %s, want %s: the other nodes have no memory, or %q does not have them",
		s.Path, s.EffectiveMems, t.Mems, s.Path.Parent())
}
