package undo

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Original is the value of a file or property before the daemon's first write.
type Original struct {
	Path cgroup.Path `json:"path"`
	File string      `json:"file"` // cpuset.cpus, cpuset.mems, cpu.weight or cpu.max
	// Container is the CRI id, if the cgroup is a container's.
	Container string `json:"container,omitempty"`
	// Unit is the systemd unit, if the configuration names it.
	Unit string `json:"unit,omitempty"`
	// Value is the kernel's content, or the property of a unit; empty if it is not set.
	Value string `json:"value"`
}

// Key is the place of an original. A unit has no path, because its slice may change.
type Key struct {
	Path cgroup.Path `json:"path,omitempty"`
	Unit string      `json:"unit,omitempty"`
	File string      `json:"file"`
}

// Key returns the place of the original.
func (o Original) Key() Key {
	if o.Unit != "" {
		return Key{Unit: o.Unit, File: o.File}
	}
	return Key{Path: o.Path, File: o.File}
}

// Compare orders originals by path and file.
func (o Original) Compare(p Original) int {
	return cmp.Or(cmp.Compare(o.Path, p.Path), cmp.Compare(o.File, p.File))
}

// Properties returns the original of a unit as systemd's property. It returns none for a file without a property.
func (o Original) Properties() []systemd.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems, cgroup.FileWeight: cgroup.UnitWeight}
	if name, ok := names[o.File]; ok {
		return []systemd.Property{{Name: name, Value: o.Value}}
	}
	return nil
}

// kernelFile returns the file of the cgroup that a write changes, by whichever way.
func kernelFile(w cgroup.Write) string {
	switch w.Property {
	case cgroup.CRICPUs, cgroup.UnitCPUs:
		return cgroup.FileCPUs
	case cgroup.CRIMems, cgroup.UnitMems:
		return cgroup.FileMems
	case cgroup.UnitWeight:
		return cgroup.FileWeight
	case cgroup.UnitQuota:
		return cgroup.FileMax
	}
	return w.Property
}

// originalOf returns the kernel's value, or the runtime's record before the cgroup exists.
func originalOf(w cgroup.Write, c cgroup.Current) Original {
	if !c.Exists {
		c.CPUs, c.Mems = c.Recorded, c.RecordedMems
	}
	file := kernelFile(w)
	return Original{Path: w.Path, File: file, Container: w.Container, Value: value(file, "", c.State)}
}

// innerOriginal returns the value of the inner cgroup in the file of a write, or the zero value
// without an inner cgroup or such a file. It reports whether the value differs from that of c.
func innerOriginal(w cgroup.Write, c cgroup.Current) (o Original, isDistinct bool) {
	if c.Inner == nil {
		return o, false
	}
	switch file := kernelFile(w); file {
	case cgroup.FileCPUs, cgroup.FileMems:
		isDistinct = c.Inner.HasCPUSet
	case cgroup.FileMax:
		isDistinct = c.Inner.HasCPU
	default: // the daemon does not write it
		return o, false
	}
	o = originalOf(cgroup.Write{Path: c.Inner.Path, Property: w.Property}, cgroup.Current{State: *c.Inner, Exists: true})
	return o, isDistinct && o.Value != originalOf(w, c).Value
}

// value returns the content of a file of a cgroup, or the property from which systemd sets the file of a unit. The
// property is empty if it is not set.
func value(file, unit string, st cgroup.State) string {
	switch {
	case file == cgroup.FileCPUs:
		return st.CPUs.String()
	case file == cgroup.FileMems:
		return st.Mems.String()
	case file == cgroup.FileWeight && (unit == "" || st.Weight != 0):
		return strconv.FormatUint(st.Weight, 10)
	case file == cgroup.FileMax && unit == "":
		return cgroup.FormatMax(st.Quota, st.Period)
	}
	return ""
}

// stateOf returns the values that systemd has for a unit, without its quota: the daemon does not write it.
func stateOf(st cgroup.UnitState) cgroup.State {
	return cgroup.State{CPUs: st.CPUs, Mems: st.Mems, Weight: st.Weight}
}

// Originals holds the values before the daemon's first writes, for a journal.
type Originals struct {
	saving *saving
	values map[Key]Original
	recent map[Key]int // newest change of each original that is new or other than on disk
	bare   bool
}

func newOriginals(all []Original, saving *saving) *Originals {
	v := &Originals{saving: saving, values: make(map[Key]Original, len(all)), recent: make(map[Key]int), bare: len(all) == 0}
	for _, o := range all {
		// Of two originals for a unit, the one without a value was there before the daemon's.
		if _, known := v.values[o.Key()]; !known || o.Value == "" {
			v.values[o.Key()] = o
		}
	}
	return v
}

// Note keeps the first original of a place. No write is made before it is on disk.
func (v *Originals) Note(o Original) {
	if v.note(o) {
		v.saving.barrier = v.saving.changes
	}
}

// NoteAsync is Note for originals that no write waits for.
func (v *Originals) NoteAsync(o Original) { v.note(o) }

func (v *Originals) note(o Original) (added bool) {
	k := o.Key()
	if known, ok := v.values[k]; ok {
		if known.Container == "" && o.Container != "" { // the container was unidentified at the first write
			known.Container = o.Container
			v.put(known)
		}
		return false
	}
	v.put(o)
	return true
}

func (v *Originals) put(o Original) {
	v.saving.changes++
	v.values[o.Key()], v.recent[o.Key()] = o, v.saving.changes
}

// NoteCreated notes the values that a new container would have without the daemon, for
// restore. weight is the cpu.weight of its requested shares, 0 if it is unknown.
func (v *Originals) NoteCreated(path cgroup.Path, container string, requested cri.Resources, p *pools.Placement, weight uint64) {
	note := func(file, value string) {
		v.NoteAsync(Original{Path: path, File: file, Container: container, Value: value})
	}
	if path == "" {
		return
	}
	note(cgroup.FileCPUs, requested.CPUs)
	if !p.Mems.IsEmpty() {
		note(cgroup.FileMems, requested.Mems)
	}
	if p.Shares != 0 && weight != 0 {
		note(cgroup.FileWeight, strconv.FormatUint(weight, 10))
	}
	switch {
	case p.Unlimited && requested.Quota > 0:
		note(cgroup.FileMax, cgroup.FormatMax(requested.Quota, requested.Period))
	case p.Limit != 0:
		note(cgroup.FileMax, cgroup.FormatMax(-1, 100_000))
	}
}

// NoteWrite notes the value that a write to the cgroup of c, or to its inner cgroup, is about to
// replace.
//
// crun writes each update to both cgroups. So the daemon can find values in the inner cgroup that
// it has requested itself. If the outer cgroup has an original, the daemon has changed the
// container before, and the original of the inner cgroup is the same one. If the two values
// differ before that, the inner cgroup has a value of its own, and the journal notes both.
func (v *Originals) NoteWrite(w cgroup.Write, c cgroup.Current) {
	inner, isDistinct := innerOriginal(w, c)
	if inner.Path != w.Path {
		o := originalOf(w, c)
		if isDistinct && !v.Has(o.Path, o.File) {
			v.Note(inner)
		}
		if o.File == cgroup.FileMax && o.Container == "" && c.Quota >= 0 && (w.Value == cgroup.ValueMax || w.Value == cgroup.ValueInf) {
			v.Amend(o.Key(), o.Value) // the kubelet has resized the pod
		}
		v.Note(o)
		return
	}
	if outer, written := v.values[Key{Path: w.Path.Scope(), File: inner.File}]; written {
		inner.Value = outer.Value
	}
	v.Note(inner)
}

// AmendQuota replaces the original quota of a container that runs without a quota. A resize changes
// the quota that the container would have. NRI keeps it out of the cgroup, so NoteWrite never sees it.
// No write waits for the new original.
func (v *Originals) AmendQuota(p cgroup.Path, quota, period int64) {
	k := Key{Path: p, File: cgroup.FileMax}
	o, ok := v.values[k]
	if !ok || quota <= 0 {
		return
	}
	var b [48]byte // the value is usually the same: no allocation
	value := append(strconv.AppendInt(b[:0], quota, 10), ' ')
	value = strconv.AppendInt(value, period, 10)
	if o.Value == string(value) {
		return
	}
	v.amend(k, string(value))
	if inner, ok := p.Inner(); ok {
		v.amend(Key{Path: inner, File: cgroup.FileMax}, string(value))
	}
}

// NoteUnitWrite notes the property that a write to a unit's cgroup is about to replace.
func (v *Originals) NoteUnitWrite(w cgroup.Write, unit string, st cgroup.UnitState) {
	file := kernelFile(w)
	v.Note(Original{Path: w.Path, File: file, Unit: unit, Value: value(file, unit, stateOf(st))})
}

// Amend replaces the value of an original, if there is one.
func (v *Originals) Amend(k Key, value string) {
	if v.amend(k, value) {
		v.saving.barrier = v.saving.changes
	}
}

func (v *Originals) amend(k Key, value string) (amended bool) {
	o, ok := v.values[k]
	if !ok || o.Value == value {
		return false
	}
	o.Value = value
	v.put(o)
	return true
}

// Get returns the original of a place.
func (v *Originals) Get(k Key) (Original, bool) {
	o, ok := v.values[k]
	return o, ok
}

// Keys returns the places of all originals, in no order.
func (v *Originals) Keys() iter.Seq[Key] { return maps.Keys(v.values) }

// Has reports whether the daemon has written a file of a cgroup, or is about to.
func (v *Originals) Has(p cgroup.Path, file string) bool {
	_, ok := v.values[Key{Path: p, File: file}]
	return ok
}

// NodesBefore returns the NUMA nodes to which a target's memory was bound before the
// daemon bound it. It reports whether the daemon did so.
func (v *Originals) NodesBefore(t *cgroup.Target) (nodes cpuset.Set, bound bool) {
	o, bound := v.values[Original{Path: t.Path, Unit: t.Unit, File: cgroup.FileMems}.Key()]
	nodes, err := cpuset.Parse(o.Value)
	return nodes, bound && err == nil // restore reports a damaged value
}

// CPUsBefore returns the cpuset.cpus of a cgroup before the daemon wrote it. It reports
// whether the daemon did so, or is about to.
func (v *Originals) CPUsBefore(p cgroup.Path) (cpus cpuset.Set, wrote bool) {
	o, wrote := v.values[Key{Path: p, File: cgroup.FileCPUs}]
	cpus, _ = cpuset.Parse(o.Value) // empty for a damaged value, which restore reports
	return cpus, wrote
}

// WeightBefore returns a unit's weight before the daemon's first write, or 0.
func (v *Originals) WeightBefore(unit string) uint64 {
	o, written := v.values[Key{Unit: unit, File: cgroup.FileWeight}]
	if !written {
		return 0
	}
	const unset = 100 // systemd's weight of units without CPUWeight
	w, err := strconv.ParseUint(o.Value, 10, 64)
	if err != nil {
		return unset
	}
	return w
}

// OfUnits returns the originals of systemd units by unit, in order of files.
func (v *Originals) OfUnits() map[string][]Original {
	all := make(map[string][]Original)
	for _, o := range v.values {
		if o.Unit != "" {
			all[o.Unit] = append(all[o.Unit], o)
		}
	}
	for _, of := range all {
		slices.SortFunc(of, Original.Compare)
	}
	return all
}

// ForgetUnit drops the originals of a unit that has its properties back.
func (v *Originals) ForgetUnit(name string) {
	for k, o := range v.values {
		if o.Unit == name {
			delete(v.values, k)
			v.saving.changes++
			v.recent[k] = v.saving.changes
		}
	}
}

// Forget drops the originals of cgroups that are gone. Originals of units stay, because a
// stopped unit keeps its properties.
func (v *Originals) Forget(gone func(cgroup.Path) bool) {
	if v.drop(gone) || v.saving.stale {
		v.saving.stale = false
		v.saving.changes++
	}
}

// Drop is Forget without a save, which the next Forget asks for.
func (v *Originals) Drop(gone func(cgroup.Path) bool) {
	v.saving.stale = v.drop(gone) || v.saving.stale
}

func (v *Originals) drop(gone func(cgroup.Path) bool) (dropped bool) {
	for k, o := range v.values {
		if o.Unit == "" && gone(k.Path) {
			delete(v.values, k)
			delete(v.recent, k) // the next daemon drops an older original of it again
			dropped = true
		}
	}
	return dropped
}

// WasBare reports whether the daemon started without any original of this boot.
func (v *Originals) WasBare() bool { return v.bare }
