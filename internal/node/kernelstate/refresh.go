package kernelstate

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Each cgroup is read as a whole once in turns rechecks: in turnsIn, but in maxTurns
// rechecks at most. This bounds the time until a write without a notice is found.
const (
	maxTurns = 8
	turnsIn  = 4 * time.Minute
)

// Recheck makes the next Refresh read every cgroup again. Cgroups with watched files are
// read as a whole in turns, and checked in between. The caller rechecks once in a period.
func (t *Cache) Recheck(watched func(cgroup.State) bool, period time.Duration) {
	t.watched = watched
	t.rechecks++
	t.turns = uint64(max(1, min(maxTurns, turnsIn/max(period, time.Second))))
}

// needsCheckOnly reports whether a check suffices. After an own write s is outdated.
func (t *Cache) needsCheckOnly(s cgroup.State) bool {
	return (turnOf(s.Path)+t.rechecks)%t.turns != 0 && t.Writes.since[s.Path] == nil && !t.Writes.IsBusy(s.Path) && t.watched(s)
}

// turnOf distributes cgroups over the turns. It returns the same turn for the same cgroup.
func turnOf(p cgroup.Path) (turn uint64) {
	for i := range len(p) {
		turn = 31*turn + uint64(p[i])
	}
	return turn
}

// Refresh reads the targets as Read does, and drops cgroups that are no targets and have no write in progress.
func (t *Cache) Refresh(targets []cgroup.Target, m *inventory.Objects) (gone []cgroup.Path, errs map[cgroup.Path]error) {
	gone, errs = t.Read(targets, m)
	t.watched = nil
	same := func(p cgroup.Path, target cgroup.Target) bool { return p == target.Path }
	if len(t.current) != len(t.known) || !slices.EqualFunc(t.known, targets, same) {
		t.known = t.known[:0]
		wanted := make(map[cgroup.Path]bool, len(targets))
		for i := range targets {
			wanted[targets[i].Path] = true
			t.known = append(t.known, targets[i].Path)
		}
		maps.DeleteFunc(t.current, func(p cgroup.Path, _ cgroup.Current) bool { return !wanted[p] && !t.Writes.IsBusy(p) })
	}
	unknown := func(p cgroup.Path) bool { return !t.Has(p) && !t.Writes.IsBusy(p) }
	maps.DeleteFunc(t.stale, func(p cgroup.Path, _ bool) bool { return unknown(p) })
	maps.DeleteFunc(t.Writes.since, func(p cgroup.Path, _ *written) bool { return unknown(p) })
	t.Threads.forget()
	return gone, errs
}

// Read reads the targets that are unknown or stale. It returns the cgroups that do not exist
// although their targets need them, and the cgroups of running containers without a process
// there. It also returns the errors of unreadable cgroups. An unreadable cgroup keeps its last
// state, so that no other cgroup gets its CPUs.
func (t *Cache) Read(targets []cgroup.Target, m *inventory.Objects) (gone []cgroup.Path, errs map[cgroup.Path]error) {
	defer t.kernel.Rest()
	for i := range targets {
		target := targets[i]
		p := target.Path
		c, known := t.current[p]
		stale := !known || t.stale[p] || !c.Exists && !m.IsAwaited(target)
		if !stale && t.watched == nil {
			continue
		}
		checkOnly := !stale && c.Exists && t.needsCheckOnly(c.State)
		if !known {
			c = m.Recorded(target)
		}
		e := m.Container(target.Container)
		if e.IsBeingMade() {
			c.State, c.Exists = cgroup.State{Path: p}, false
			t.current[p] = c
			delete(t.stale, p)
			delete(t.Writes.since, p)
			continue
		}
		st, err := t.readOne(&target, c.State, checkOnly)
		switch {
		case err == nil && e.NoteProcesses(st.Populated):
			gone = append(gone, p)
			delete(t.current, p)
			continue
		case err == nil:
			if known && c.Exists {
				t.compare(&target, &c, st)
			}
			c.State, c.Exists = st, true
		case !errors.Is(err, cgroup.ErrGone):
			if errs == nil {
				errs = make(map[cgroup.Path]error)
			}
			t.stale[p] = true
			errs[p] = err
			continue
		case m.IsAwaited(target):
			c.State, c.Exists = cgroup.State{Path: p}, false
		default:
			gone = append(gone, p)
			delete(t.current, p)
			continue
		}
		t.current[p] = c
		delete(t.stale, p)
		if !t.Writes.IsBusy(p) {
			delete(t.Writes.since, p)
		}
	}
	return gone, errs
}

// readOne reads or checks a cgroup, and moves threads if it may have processes.
func (t *Cache) readOne(target *cgroup.Target, before cgroup.State, checkOnly bool) (st cgroup.State, err error) {
	if checkOnly {
		st, err = t.kernel.Check(before)
	} else {
		st, err = t.kernel.Read(target.Path)
	}
	if err == nil && (st.Populated || checkOnly) && !target.CPUs.IsEmpty() {
		err = t.Threads.move(target.Path)
	}
	return st, err
}
