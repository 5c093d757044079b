package undo

import (
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Journal holds the originals and the facts that must outlive the daemon, and which of them
// survive the daemon. A worker saves the document of BeginSave. WriteRecent is its only I/O.
type Journal struct {
	saving
	originals map[Key]Original
	recent    map[Key]int // newest change of each original that is new or other than on disk
	facts     Document    // without originals; its lists are sorted
	bare      bool
}

// Journal returns a journal that begins with the document.
func (d Document) Journal() *Journal {
	j := &Journal{originals: make(map[Key]Original, len(d.Originals)), recent: make(map[Key]int), facts: d, bare: len(d.Originals) == 0}
	j.facts.Originals = nil
	j.changes, j.kept, j.sent, j.durable = d.Change, d.Change, d.OnDisk, d.OnDisk
	j.based = d.OnDisk != 0 && d.OnDisk == d.Change
	for _, o := range d.Originals {
		// Of two originals for a unit, the one without a value was there before the daemon's.
		if _, known := j.originals[o.Key()]; !known || o.Value == "" {
			j.originals[o.Key()] = o
		}
	}
	return j
}

// Note keeps the first original of a place. No write is made before it is on disk.
func (j *Journal) Note(o Original) {
	if j.note(o) {
		j.barrier = j.changes
	}
}

// NoteAsync is Note for originals that no write waits for.
func (j *Journal) NoteAsync(o Original) { j.note(o) }

func (j *Journal) note(o Original) (added bool) {
	k := o.Key()
	if known, ok := j.originals[k]; ok {
		if known.Container == "" && o.Container != "" { // the container was unidentified at the first write
			known.Container = o.Container
			j.put(known)
		}
		return false
	}
	j.put(o)
	return true
}

func (j *Journal) put(o Original) {
	j.changes++
	j.originals[o.Key()], j.recent[o.Key()] = o, j.changes
}

// NoteCreated notes the values that a new container would have without the daemon, for
// restore. weight is the cpu.weight of its requested shares, 0 if it is unknown.
func (j *Journal) NoteCreated(path cgroup.Path, container string, requested cri.Resources, p *pools.Placement, weight uint64) {
	note := func(file, value string) {
		j.NoteAsync(Original{Path: path, File: file, Container: container, Value: value})
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
func (j *Journal) NoteWrite(w cgroup.Write, c cgroup.Current) {
	inner, isDistinct := innerOriginal(w, c)
	if inner.Path != w.Path {
		o := originalOf(w, c)
		if isDistinct && !j.HasOriginal(o.Path, o.File) {
			j.Note(inner)
		}
		if o.File == cgroup.FileMax && o.Container == "" && c.Quota >= 0 && (w.Value == cgroup.ValueMax || w.Value == cgroup.ValueInf) {
			j.Amend(o.Key(), o.Value) // the kubelet has resized the pod
		}
		j.Note(o)
		return
	}
	if outer, written := j.originals[Key{Path: w.Path.Scope(), File: inner.File}]; written {
		inner.Value = outer.Value
	}
	j.Note(inner)
}

// AmendQuota replaces the original quota of a container that runs without a quota. A resize changes
// the quota that the container would have. NRI keeps it out of the cgroup, so NoteWrite never sees it.
// No write waits for the new original.
func (j *Journal) AmendQuota(p cgroup.Path, quota, period int64) {
	k := Key{Path: p, File: cgroup.FileMax}
	o, ok := j.originals[k]
	if !ok || quota <= 0 {
		return
	}
	var b [48]byte // the value is usually the same: no allocation
	value := append(strconv.AppendInt(b[:0], quota, 10), ' ')
	value = strconv.AppendInt(value, period, 10)
	if o.Value == string(value) {
		return
	}
	j.amend(k, string(value))
	if inner, ok := p.Inner(); ok {
		j.amend(Key{Path: inner, File: cgroup.FileMax}, string(value))
	}
}

// NoteUnitWrite notes the property that a write to a unit's cgroup is about to replace.
func (j *Journal) NoteUnitWrite(w cgroup.Write, unit string, st cgroup.UnitState) {
	file := kernelFile(w)
	j.Note(Original{Path: w.Path, File: file, Unit: unit, Value: value(file, unit, stateOf(st))})
}

// Amend replaces the value of an original, if there is one.
func (j *Journal) Amend(k Key, value string) {
	if j.amend(k, value) {
		j.barrier = j.changes
	}
}

func (j *Journal) amend(k Key, value string) (amended bool) {
	o, ok := j.originals[k]
	if !ok || o.Value == value {
		return false
	}
	o.Value = value
	j.put(o)
	return true
}

// Original returns the original of a place.
func (j *Journal) Original(k Key) (Original, bool) {
	o, ok := j.originals[k]
	return o, ok
}

// Keys returns the places of all originals, in no order.
func (j *Journal) Keys() iter.Seq[Key] { return maps.Keys(j.originals) }

// HasOriginal reports whether the daemon has written a file of a cgroup, or is about to.
func (j *Journal) HasOriginal(p cgroup.Path, file string) bool {
	_, ok := j.originals[Key{Path: p, File: file}]
	return ok
}

// NodesBefore returns the NUMA nodes to which a target's memory was bound before the
// daemon bound it. It reports whether the daemon did so.
func (j *Journal) NodesBefore(t *cgroup.Target) (nodes cpuset.Set, bound bool) {
	o, bound := j.originals[Original{Path: t.Path, Unit: t.Unit, File: cgroup.FileMems}.Key()]
	if !bound {
		return cpuset.Set{}, false
	}
	nodes, err := cpuset.Parse(o.Value)
	return nodes, err == nil // restore reports a damaged value
}

// CPUsBefore returns the cpuset.cpus of a cgroup before the daemon wrote it. It reports
// whether the daemon did so, or is about to.
func (j *Journal) CPUsBefore(p cgroup.Path) (cpus cpuset.Set, wrote bool) {
	o, wrote := j.originals[Key{Path: p, File: cgroup.FileCPUs}]
	if !wrote {
		return cpuset.Set{}, false
	}
	cpus, _ = cpuset.Parse(o.Value) // empty for a damaged value, which restore reports
	return cpus, true
}

// WeightBefore returns a unit's weight before the daemon's first write, or 0.
func (j *Journal) WeightBefore(unit string) uint64 {
	o, written := j.originals[Key{Unit: unit, File: cgroup.FileWeight}]
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

// UnitOriginals returns the originals of systemd units by unit, in order of files.
func (j *Journal) UnitOriginals() map[string][]Original {
	all := make(map[string][]Original)
	for _, o := range j.originals {
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
func (j *Journal) ForgetUnit(name string) {
	for k, o := range j.originals {
		if o.Unit == name {
			delete(j.originals, k)
			j.changes++
			j.recent[k] = j.changes
		}
	}
}

// Forget drops the originals of cgroups that are gone. Originals of units stay, because a
// stopped unit keeps its properties.
func (j *Journal) Forget(gone func(cgroup.Path) bool) {
	if j.drop(gone) || j.stale {
		j.stale = false
		j.changes++
	}
}

// DropOriginals is Forget without a save, which the next Forget asks for.
func (j *Journal) DropOriginals(gone func(cgroup.Path) bool) {
	if j.drop(gone) {
		j.stale = true
	}
}

func (j *Journal) drop(gone func(cgroup.Path) bool) (dropped bool) {
	for k, o := range j.originals {
		if o.Unit == "" && gone(k.Path) {
			delete(j.originals, k)
			delete(j.recent, k) // the next daemon drops an older original of it again
			dropped = true
		}
	}
	return dropped
}

// WasBare reports whether the daemon started without any original of this boot.
func (j *Journal) WasBare() bool { return j.bare }

// set replaces a fact. A fact that is the same is no change.
func set[F any](j *Journal, fact *F, value F, same bool) {
	if !same {
		*fact = value
		j.changes++
	}
}

// Facts returns the facts of the journal, without originals. Its lists are sorted.
func (j *Journal) Facts() Document { return j.facts }

// SetAssignments replaces the assignments in force.
func (j *Journal) SetAssignments(as []pools.Assignment) {
	set(j, &j.facts.Assignments, as, slices.EqualFunc(j.facts.Assignments, as, pools.Assignment.Equal))
}

// SetUnhinted replaces the owners whose CPUs were chosen without hints. Keys are sorted.
func (j *Journal) SetUnhinted(keys []pools.Key) {
	set(j, &j.facts.Unhinted, keys, slices.Equal(j.facts.Unhinted, keys))
}

// SetOthers replaces the containers whose CPUs another plugin chose. They are sorted.
func (j *Journal) SetOthers(all []Left) {
	set(j, &j.facts.Others, all, slices.Equal(j.facts.Others, all))
}

// SetClaims replaces the prepared ResourceClaims. They are sorted.
func (j *Journal) SetClaims(all []pools.Claim) {
	set(j, &j.facts.Claims, all, slices.EqualFunc(j.facts.Claims, all, pools.Claim.Equal))
}

// SetResting replaces the CPUs that the quiet period keeps out of the shared pool.
func (j *Journal) SetResting(cpus cpuset.Set) {
	set(j, &j.facts.Resting, cpus, j.facts.Resting.Equal(cpus))
}

// Accept replaces the newest configuration that fitted the machine. Nil changes nothing.
func (j *Journal) Accept(a *Accepted) {
	set(j, &j.facts.Accepted, a, a == nil || j.facts.Accepted.Equal(*a))
}
