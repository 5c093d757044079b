package cgroup

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Diff returns the writes that bring the cgroups to their desired state, in an order
// in which each prefix is safe, and the differences that cannot be
// written now. See docs/explanation/write-order.md for the order and why it is safe.
//
// Targets may come in any order; of two for one path the second is deferred. A
// target whose path is not in current is left out: its cgroup is gone. The
// writes to one path must be carried out in their order; consecutive ones that
// are not Via File may run at the same time for different paths. After a write
// that failed, the rest of the list must not be carried out: mark the cgroup
// (NoWrite, NoRecord), read again, and call Diff again. A cgroup in one of marked counts
// instead of the same one in current, so that the caller can mark cgroups without a copy of all.
func Diff(targets []Target, current map[Path]Current, o Options, marked ...map[Path]Current) ([]Write, []Deferred) {
	of := func(p Path) (Current, bool) {
		for _, m := range marked {
			if c, ok := m[p]; ok {
				return c, true
			}
		}
		c, ok := current[p]
		return c, ok
	}
	if upToDate(targets, of, o) {
		return nil, nil
	}
	d := differ{options: o}
	d.add(targets, of)
	d.place()
	for _, it := range d.items {
		d.mems(it)
		d.limits(it)
	}
	return d.writes, d.deferred
}

// upToDate reports the usual case, without an allocation.
func upToDate(targets []Target, current func(Path) (Current, bool), o Options) bool {
	for i := range targets {
		t := &targets[i]
		c, ok := current(t.Path)
		if !ok {
			continue
		}
		if !t.CPUs.IsEmpty() && (needsRaw(t.CPUs, &c) || needsPersist(t, t.CPUs, &c, o.Driver)) {
			return false
		}
		if needsMems(t, &c, o) || needsWeight(t, &c, o.Driver, false) || needsQuota(t, &c, o.Driver, false) {
			return false
		}
	}
	return true
}

// needsRaw reports whether the kernel's request differs.
func needsRaw(want cpuset.Set, c *Current) bool {
	return c.Exists && (!c.CPUs.Equal(want) || innerDiffers(want, c))
}

// innerDiffers reports whether crun's inner cgroup has its own request and the request
// is wrong.
func innerDiffers(want cpuset.Set, c *Current) bool {
	return c.Inner != nil && !c.Inner.CPUs.IsEmpty() && !c.Inner.CPUs.Equal(want)
}

// needsPersist reports whether the recorder holds another cpuset, or may hold one. Systemd can
// have other CPUs although the runtime has recorded the right ones. While a container starts, the
// runtime records an update of it, but starts the container with the previous values.
func needsPersist(t *Target, want cpuset.Set, c *Current, d Driver) bool {
	if recorder(t, c, d) == "" || c.Pending.Equal(want) {
		return false
	}
	return !c.RecordedKnown || !c.Recorded.Equal(want) || !c.Pending.IsEmpty() ||
		c.Exists && c.Unit.Known && unitOf(t, d) != "" && !c.Unit.CPUs.Equal(want)
}

// recorder returns the recorder of a cgroup's cpuset; "" if only the raw write
// sets it.
func recorder(t *Target, c *Current, d Driver) Via {
	if t.Container != "" && !t.NoCRI {
		return CRI
	}
	if t.Unit != "" || unitOf(t, d) != "" && c.Exists {
		return DBus
	}
	return ""
}

// unitOf is the unit that systemd manages the target as, if it does. With the
// cgroupfs driver it manages what the configuration names.
func unitOf(t *Target, d Driver) string {
	if t.Unit != "" || d != DriverSystemd || t.FileOnly {
		return t.Unit
	}
	unit, _ := t.Path.Unit()
	return unit
}

// differ is one run of Diff.
type differ struct {
	options  Options
	items    []*item // sorted by path
	writes   []Write
	deferred []Deferred

	holders, exclusive tally // by CPU: number of items that hold it, and of exclusive ones among them
}

func (d *differ) add(targets []Target, current func(Path) (Current, bool)) {
	sorted := slices.Clone(targets)
	slices.SortFunc(sorted, compareTargets)
	placed := make(map[Path]bool, len(sorted))
	for _, t := range sorted {
		placed[t.Path] = placed[t.Path] || !t.CPUs.IsEmpty() && !t.Around
	}
	around := make(map[Path]*item)
	for i := range sorted {
		t := &sorted[i]
		c, ok := current(t.Path)
		if !ok {
			continue
		}
		if i > 0 && sorted[i-1].Path == t.Path {
			if compareTargets(sorted[i-1], *t) != 0 {
				d.postpone(t, FileCPUs, "there is another target for this cgroup")
			}
			continue
		}
		d.items = append(d.items, newItem(t, c, d.options))
		if it := d.items[len(d.items)-1]; it.moves {
			for p := it.Path.Parent(); p != ""; p = p.Parent() {
				if outer := around[p]; outer != nil {
					it.outer = outer
					outer.inner = append(outer.inner, it)
				}
			}
			if d.admit(it, placed); it.Around && !it.stays {
				around[it.Path] = it // before all that is in it: they are in order of their paths
			}
		}
	}
	for _, it := range d.items {
		if it.moves {
			d.count(it, +1)
		}
	}
	for _, cpus := range d.options.Leaving {
		d.holders.add(cpus, +1)
		d.exclusive.add(cpus, +1)
	}
}

// admit sorts out targets that no write can fulfil.
func (d *differ) admit(it *item, placed map[Path]bool) {
	for p := it.Path.Parent(); p != ""; p = p.Parent() {
		if placed[p] || it.Around && it.outer != nil && it.outer.Path == p {
			it.stay()
			d.postpone(it.Target, FileCPUs, fmt.Sprintf("%s, which contains it, is a target with CPUs too", p))
			return
		}
	}
	switch {
	case it.want.IsEmpty():
		it.stay()
		d.postpone(it.Target, FileCPUs, fmt.Sprintf("none of the CPUs %s is possible on this machine", it.CPUs))
	case it.current.Exists && !it.want.Overlaps(it.reachable()) && !it.awaitsOuter():
		it.stay()
		d.postpone(it.Target, FileCPUs, fmt.Sprintf("%q has no CPU of %s, so its CPUs %s would apply",
			it.Path.Parent(), it.want, it.current.ParentEffective))
	case it.current.left(FileCPUs):
		if !it.placed || !it.persisted {
			d.postpone(it.Target, FileCPUs, leftAlone)
		}
		it.stay()
	case it.current.NoWrite:
		if needsRaw(it.want, &it.current) {
			d.postpone(it.Target, FileCPUs, "the kernel refused to write this cgroup in this pass")
		}
		it.stay()
	case it.current.Exists && !it.current.HasCPUSet && it.via == "":
		it.stay()
		d.postpone(it.Target, FileCPUs, fmt.Sprintf("%q does not enable the cpuset controller for it", it.Path.Parent()))
	}
}

const leftAlone = "another process writes it, too; repairs pause for a while"

// compareTargets orders targets by path, and targets of one path, which are a mistake of the
// caller, by their text.
func compareTargets(a, b Target) int {
	if byPath := cmp.Compare(a.Path, b.Path); byPath != 0 {
		return byPath
	}
	return cmp.Compare(fmt.Sprintf("%+v", a), fmt.Sprintf("%+v", b))
}

func (d *differ) postpone(t *Target, property, reason string, waitsFor ...Path) {
	d.deferred = append(d.deferred, Deferred{
		Path: t.Path, Container: t.Container, Property: property, Reason: reason, WaitsFor: waitsFor,
	})
}

func (d *differ) emit(it *item, p Path, via Via, property, value, reason string) {
	w := Write{Path: p, Via: via, Property: property, Value: value, Reason: reason}
	if via == CRI {
		w.Container = it.Container
	}
	d.writes = append(d.writes, w)
}
