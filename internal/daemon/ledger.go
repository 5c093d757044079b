package daemon

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ledger is the owner's side of the journal: what is known, and what of it has
// reached the disk. The disk itself is a worker's business.
type ledger struct {
	bootID      string
	originals   map[originalKey]Original
	assignments []pools.Assignment
	unhinted    []pools.Key // sorted
	others      []left      // sorted
	resting     cpuset.Set
	accepted    *accepted
	// bare says that no original of this boot was known when the daemon started.
	bare bool

	// outdated says that there are originals on the disk that have been shed.
	outdated bool

	changes int // number of the newest change
	sent    int // newest change in a save that was submitted
	durable int // newest change that is known to be on disk
	barrier int // newest change that added an original
}

// originalKey is the place of an original. A unit's is the unit and not its cgroup,
// which is another one when its slice changes.
type originalKey struct {
	path cgroup.Path
	unit string
	file string
}

func (o Original) key() originalKey {
	if o.Unit != "" {
		return originalKey{unit: o.Unit, file: o.File}
	}
	return originalKey{path: o.Path, file: o.File}
}

func newLedger(j Journal) *ledger {
	l := &ledger{bare: len(j.Originals) == 0, bootID: j.BootID, originals: make(map[originalKey]Original), assignments: fromRecords(j.Assignments), resting: j.Resting, accepted: j.Accepted}
	for _, o := range j.Originals {
		if _, known := l.originals[o.key()]; !known || o.Value == "" {
			l.originals[o.key()] = o // of two for a unit, not the one that we had set
		}
	}
	for _, o := range j.Unhinted {
		l.unhinted = append(l.unhinted, pools.Key(o))
	}
	l.others = j.Others
	return l
}

// note records an original unless there is one already: the first stands. No write
// is made before it is on disk.
func (l *ledger) note(o Original) {
	if l.remember(o) {
		l.barrier = l.changes
	}
}

// remember is note for what nothing waits for.
func (l *ledger) remember(o Original) (added bool) {
	k := o.key()
	if _, known := l.originals[k]; known {
		return false
	}
	l.originals[k] = o
	l.changes++
	return true
}

// safe says that every original is on disk, so that what replaces them may be
// written.
func (l *ledger) safe() bool { return l.durable >= l.barrier }

// touched says that the daemon has written, or is about to write, a file.
func (l *ledger) touched(p cgroup.Path, file string) bool {
	_, ok := l.originals[originalKey{path: p, file: file}]
	return ok
}

// lifted says that the daemon has written a quota.
func (l *ledger) lifted(p cgroup.Path) bool { return l.touched(p, cgroup.FileMax) }

// nodesBefore returns the NUMA nodes that memory of a target was bound to before the
// daemon bound it; bound says that it has.
func (l *ledger) nodesBefore(t *cgroup.Target) (nodes cpuset.Set, bound bool) {
	o, bound := l.originals[Original{Path: t.Path, Unit: t.Unit, File: cgroup.FileMems}.key()]
	if !bound {
		return cpuset.Set{}, false
	}
	nodes, err := cpuset.Parse(o.Value)
	return nodes, err == nil // else restore reports it
}

// assign records the assignments in force.
func (l *ledger) assign(as []pools.Assignment) {
	same := func(a, b pools.Assignment) bool {
		return a.Key == b.Key && a.CPUs.Equal(b.CPUs) && a.Away.Equal(b.Away)
	}
	if slices.EqualFunc(l.assignments, as, same) {
		return
	}
	l.assignments = as
	l.changes++
}

// goWithout records who has CPUs that were chosen without hints, sorted.
func (l *ledger) goWithout(keys []pools.Key) {
	if !slices.Equal(l.unhinted, keys) {
		l.unhinted = keys
		l.changes++
	}
}

// leave records which containers' CPUs are another plugin's, sorted.
func (l *ledger) leave(all []left) {
	if !slices.Equal(l.others, all) {
		l.others = all
		l.changes++
	}
}

// rest records the CPUs that are kept out of the shared pool.
func (l *ledger) rest(cpus cpuset.Set) {
	if !l.resting.Equal(cpus) {
		l.resting = cpus
		l.changes++
	}
}

// accept records that a configuration fits the machine.
func (l *ledger) accept(a *accepted) {
	if a == nil || l.accepted.equal(*a) {
		return
	}
	l.accepted = a
	l.changes++
}

// units are the originals of systemd units, by unit, in the order of their files.
func (l *ledger) units() map[string][]Original {
	all := make(map[string][]Original)
	for _, o := range l.originals {
		if o.Unit != "" {
			all[o.Unit] = append(all[o.Unit], o)
		}
	}
	for _, of := range all {
		sortOriginals(of)
	}
	return all
}

// forgetUnit drops the originals of a unit that has them back.
func (l *ledger) forgetUnit(name string) {
	for k, o := range l.originals {
		if o.Unit == name {
			delete(l.originals, k)
			l.changes++
		}
	}
}

// forget drops the originals of cgroups that are gone. A unit keeps its properties
// when it is stopped.
func (l *ledger) forget(gone func(cgroup.Path) bool) {
	if l.outdated {
		l.outdated = false
		l.changes++
	}
	for k, o := range l.originals {
		if o.Unit == "" && gone(k.path) {
			delete(l.originals, k)
			l.changes++
		}
	}
}

// shed is forget without a save: the disk has them until the next one, which forget asks for.
func (l *ledger) shed(gone func(cgroup.Path) bool) {
	for k, o := range l.originals {
		if o.Unit == "" && gone(k.path) {
			delete(l.originals, k)
			l.outdated = true
		}
	}
}

// journal is a copy for a worker; Originals are in no order.
func (l *ledger) journal() Journal {
	j := Journal{BootID: l.bootID, Originals: make([]Original, 0, len(l.originals)), Assignments: toRecords(l.assignments), Resting: l.resting, Accepted: l.accepted}
	for _, o := range l.originals {
		j.Originals = append(j.Originals, o)
	}
	for _, k := range l.unhinted {
		j.Unhinted = append(j.Unhinted, owner(k))
	}
	j.Others = slices.Clone(l.others)
	return j
}
