package undo

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Journal is the owner's side of the journal: what is known, and what of it has
// reached the disk. The disk itself is a worker's business.
type Journal struct {
	bootID      string
	Originals   map[Key]Original
	Assignments []pools.Assignment
	Unhinted    []pools.Key // sorted
	Others      []Left      // sorted
	Resting     cpuset.Set
	Accepted    *Accepted
	// Bare says that no original of this boot was known when the daemon started.
	Bare bool

	// Outdated says that there are originals on the disk that have been shed.
	Outdated bool

	Changes int // number of the newest change
	Sent    int // newest change in a save that was submitted
	Durable int // newest change that is known to be on disk
	barrier int // newest change that added an original
}

// Key is the place of an original. A unit's is the unit and not its cgroup,
// which is another one when its slice changes.
type Key struct {
	Path cgroup.Path
	Unit string
	File string
}

func (o Original) Key() Key {
	if o.Unit != "" {
		return Key{Unit: o.Unit, File: o.File}
	}
	return Key{Path: o.Path, File: o.File}
}

func New(j Document) *Journal {
	l := &Journal{Bare: len(j.Originals) == 0, bootID: j.BootID, Originals: make(map[Key]Original), Assignments: fromRecords(j.Assignments), Resting: j.Resting, Accepted: j.Accepted}
	for _, o := range j.Originals {
		if _, known := l.Originals[o.Key()]; !known || o.Value == "" {
			l.Originals[o.Key()] = o // of two for a unit, not the one that we had set
		}
	}
	for _, o := range j.Unhinted {
		l.Unhinted = append(l.Unhinted, pools.Key(o))
	}
	l.Others = j.Others
	return l
}

// Note records an original unless there is one already: the first stands. No write
// is made before it is on disk.
func (l *Journal) Note(o Original) {
	if l.NoteAsync(o) {
		l.barrier = l.Changes
	}
}

// NoteAsync is note for what nothing waits for.
func (l *Journal) NoteAsync(o Original) (added bool) {
	k := o.Key()
	if _, known := l.Originals[k]; known {
		return false
	}
	l.Originals[k] = o
	l.Changes++
	return true
}

// Safe says that every original is on disk, so that what replaces them may be
// written.
func (l *Journal) Safe() bool { return l.Durable >= l.barrier }

// HasOriginal says that the daemon has written, or is about to write, a file.
func (l *Journal) HasOriginal(p cgroup.Path, file string) bool {
	_, ok := l.Originals[Key{Path: p, File: file}]
	return ok
}

// WroteQuota says that the daemon has written a quota.
func (l *Journal) WroteQuota(p cgroup.Path) bool { return l.HasOriginal(p, cgroup.FileMax) }

// NodesBefore returns the NUMA nodes that memory of a target was bound to before the
// daemon bound it; bound says that it has.
func (l *Journal) NodesBefore(t *cgroup.Target) (nodes cpuset.Set, bound bool) {
	o, bound := l.Originals[Original{Path: t.Path, Unit: t.Unit, File: cgroup.FileMems}.Key()]
	if !bound {
		return cpuset.Set{}, false
	}
	nodes, err := cpuset.Parse(o.Value)
	return nodes, err == nil // else restore reports it
}

// SetAssignments records the assignments in force.
func (l *Journal) SetAssignments(as []pools.Assignment) {
	same := func(a, b pools.Assignment) bool {
		return a.Key == b.Key && a.CPUs.Equal(b.CPUs) && a.Away.Equal(b.Away)
	}
	if slices.EqualFunc(l.Assignments, as, same) {
		return
	}
	l.Assignments = as
	l.Changes++
}

// SetUnhinted records who has CPUs that were chosen without hints, sorted.
func (l *Journal) SetUnhinted(keys []pools.Key) {
	if !slices.Equal(l.Unhinted, keys) {
		l.Unhinted = keys
		l.Changes++
	}
}

// SetOthers records which containers' CPUs are another plugin's, sorted.
func (l *Journal) SetOthers(all []Left) {
	if !slices.Equal(l.Others, all) {
		l.Others = all
		l.Changes++
	}
}

// SetResting records the CPUs that are kept out of the shared pool.
func (l *Journal) SetResting(cpus cpuset.Set) {
	if !l.Resting.Equal(cpus) {
		l.Resting = cpus
		l.Changes++
	}
}

// Accept records that a configuration fits the machine.
func (l *Journal) Accept(a *Accepted) {
	if a == nil || l.Accepted.Equal(*a) {
		return
	}
	l.Accepted = a
	l.Changes++
}

// UnitOriginals are the originals of systemd units, by unit, in the order of their files.
func (l *Journal) UnitOriginals() map[string][]Original {
	all := make(map[string][]Original)
	for _, o := range l.Originals {
		if o.Unit != "" {
			all[o.Unit] = append(all[o.Unit], o)
		}
	}
	for _, of := range all {
		SortOriginals(of)
	}
	return all
}

// ForgetUnit drops the originals of a unit that has them back.
func (l *Journal) ForgetUnit(name string) {
	for k, o := range l.Originals {
		if o.Unit == name {
			delete(l.Originals, k)
			l.Changes++
		}
	}
}

// Forget drops the originals of cgroups that are gone. A unit keeps its properties
// when it is stopped.
func (l *Journal) Forget(gone func(cgroup.Path) bool) {
	if l.Outdated {
		l.Outdated = false
		l.Changes++
	}
	for k, o := range l.Originals {
		if o.Unit == "" && gone(k.Path) {
			delete(l.Originals, k)
			l.Changes++
		}
	}
}

// DropOriginals is forget without a save: the disk has them until the next one, which forget asks for.
func (l *Journal) DropOriginals(gone func(cgroup.Path) bool) {
	for k, o := range l.Originals {
		if o.Unit == "" && gone(k.Path) {
			delete(l.Originals, k)
			l.Outdated = true
		}
	}
}

// Document is a copy for a worker; Originals are in no order.
func (l *Journal) Document() Document {
	j := Document{BootID: l.bootID, Originals: make([]Original, 0, len(l.Originals)), Assignments: toRecords(l.Assignments), Resting: l.Resting, Accepted: l.Accepted}
	for _, o := range l.Originals {
		j.Originals = append(j.Originals, o)
	}
	for _, k := range l.Unhinted {
		j.Unhinted = append(j.Unhinted, Owner(k))
	}
	j.Others = slices.Clone(l.Others)
	return j
}
