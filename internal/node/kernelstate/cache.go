package kernelstate

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Cache is what the kernel, the runtime and systemd said of the cgroups that the
// plan is about when they were last asked.
type Cache struct {
	Read func(cgroup.Path) (cgroup.State, error)
	// MoveThreads brings the threads of a cgroup to its CPUs; nil where nothing is to be
	// changed.
	MoveThreads func(cgroup.Path) error
	// Check reads what can be other than before though nobody has told of a write.
	Check func(cgroup.State) (cgroup.State, error)
	// Rest is called when a look is over: what was opened to read can be closed. Optional.
	Rest      func()
	Current   map[cgroup.Path]cgroup.Current
	known     []cgroup.Path // the targets, when others were last forgotten
	Stale     map[cgroup.Path]bool
	Pending   map[cgroup.Path]int        // seals and reverts under way
	OwnWrites map[cgroup.Path]*ownWrites // the daemon's since they were last read
	// overridden are those whose seal under way NRI has been told another value for.
	overridden map[cgroup.Path]bool
	External   []ExternalWrite // found by reading
	Doubts     bool            // partitions are to be looked at again
	// told says, while a sweep is due, whether the daemon is told of writes to a cgroup.
	told     func(cgroup.State) bool
	Rechecks uint64 // so far: whose turn it is to be read as a whole
	Turns    uint64 // until all have been
}

func New(read func(cgroup.Path) (cgroup.State, error)) *Cache {
	return &Cache{
		Read:      read,
		Current:   make(map[cgroup.Path]cgroup.Current),
		Stale:     make(map[cgroup.Path]bool),
		Pending:   make(map[cgroup.Path]int),
		OwnWrites: make(map[cgroup.Path]*ownWrites),

		overridden: make(map[cgroup.Path]bool),
	}
}

// Invalidate makes the next refresh read a cgroup again.
func (t *Cache) Invalidate(p cgroup.Path) { t.Stale[p] = true }

// invalidateBelow makes the next refresh read what is in a slice, which may get other CPUs
// now: a unit that waits for the slice around it would wait for the next resync.
func (t *Cache) invalidateBelow(slice cgroup.Path) {
	if !strings.HasSuffix(string(slice), ".slice") {
		return // of hundreds, and with nothing in them
	}
	for p := range t.Current {
		if strings.HasPrefix(string(p), string(slice)+"/") {
			t.Stale[p] = true
		}
	}
}

// Relearn takes over what the runtime has recorded for a container by now.
func (t *Cache) Relearn(p cgroup.Path, record cgroup.Current) {
	if c, ok := t.Current[p]; ok {
		c.Recorded, c.RecordedMems, c.RecordedKnown, c.Unit = record.Recorded, record.RecordedMems, record.RecordedKnown, record.Unit
		t.Current[p] = c
	}
	t.Stale[p] = true
}

// NoteRecord takes over what systemd has on record after a foreign write, and the runtime if
// it could tell: what it had before, or else nobody knows what it would put back.
func (t *Cache) NoteRecord(p cgroup.Path, record cpuset.Set, told bool, unit cgroup.UnitState) {
	c, ok := t.Current[p]
	if !ok || t.Busy(p) {
		return
	}
	c.Unit = unit
	if told && unit.Known {
		c.RecordedKnown = record.Equal(c.Recorded) && unit.CPUs.Equal(record)
	}
	t.Current[p] = c
}

// InvalidateAll makes the next refresh read every cgroup again.
func (t *Cache) InvalidateAll() {
	t.Doubts = true
	for p := range t.Current {
		t.Stale[p] = true
	}
}

// Each cgroup is read as a whole once in so many sweeps, and in so much time where resyncPeriod
// is not longer: a notice that is lost without a word costs so much.
const (
	MaxTurns = 8
	turnsIn  = 4 * time.Minute
)

// Recheck makes the next refresh look at every cgroup again. Those of whose writes the daemon is
// told are read as a whole in turns, and checked in between. There is one in each period.
func (t *Cache) Recheck(told func(cgroup.State) bool, period time.Duration) {
	t.Doubts = true
	t.told = told
	t.Rechecks++
	t.Turns = uint64(max(1, min(MaxTurns, turnsIn/max(period, time.Second))))
}

// checks says that a cgroup is checked in this sweep, and not read as a whole. One that the
// daemon itself has written to since it was read is not as it was then.
func (t *Cache) checks(s cgroup.State) bool {
	return (TurnOf(s.Path)+t.Rechecks)%t.Turns != 0 && t.OwnWrites[s.Path] == nil && !t.Busy(s.Path) && t.told(s)
}

// TurnOf spreads cgroups over the turns, each always to the same.
func TurnOf(p cgroup.Path) (turn uint64) {
	for i := range len(p) {
		turn = 31*turn + uint64(p[i])
	}
	return turn
}

// Refresh is look, and forgets what is not a target any more.
func (t *Cache) Refresh(targets []cgroup.Target, m *inventory.Inventory) (gone []cgroup.Path, errs map[cgroup.Path]error) {
	gone, errs = t.Look(targets, m)
	t.told = nil
	same := func(p cgroup.Path, target cgroup.Target) bool { return p == target.Path }
	if len(t.Current) != len(t.known) || !slices.EqualFunc(t.known, targets, same) {
		t.forget(targets)
	}
	over := func(p cgroup.Path) bool {
		_, known := t.Current[p]
		return !known && t.Pending[p] == 0
	}
	maps.DeleteFunc(t.Stale, func(p cgroup.Path, _ bool) bool { return over(p) })
	maps.DeleteFunc(t.OwnWrites, func(p cgroup.Path, _ *ownWrites) bool { return over(p) })
	return gone, errs
}

// forget drops what is not a target, and not under way.
func (t *Cache) forget(targets []cgroup.Target) {
	t.known = t.known[:0]
	wanted := make(map[cgroup.Path]bool, len(targets))
	for i := range targets {
		wanted[targets[i].Path] = true
		t.known = append(t.known, targets[i].Path)
	}
	maps.DeleteFunc(t.Current, func(p cgroup.Path, _ cgroup.Current) bool { return !wanted[p] && t.Pending[p] == 0 })
}

// Look reads what is new or stale among the targets. Those whose cgroup should be there
// and is not come back as gone; errs are the cgroups that could not be read.
func (t *Cache) Look(targets []cgroup.Target, m *inventory.Inventory) (gone []cgroup.Path, errs map[cgroup.Path]error) {
	if t.Rest != nil {
		defer t.Rest()
	}
	for i := range targets {
		target := targets[i]
		p := target.Path
		c, known := t.Current[p]
		stale := !known || t.Stale[p] || !c.Exists && !m.Awaited(target)
		if !stale && t.told == nil {
			continue
		}
		check := !stale && c.Exists && t.checks(c.State)
		if !known {
			c = m.Recorded(target)
		}
		if m.IsBeingMade(m.Container(target.Container)) {
			c.State, c.Exists = cgroup.State{Path: p}, false
			t.Current[p] = c
			delete(t.Stale, p)
			delete(t.OwnWrites, p)
			continue
		}
		var st cgroup.State
		var err error
		if check {
			st, err = t.Check(c.State)
		} else {
			st, err = t.Read(p)
		}
		// Whether anything runs in it is not checked; where nothing does, nothing is gathered.
		if err == nil && t.MoveThreads != nil && (st.Populated || check) && !target.CPUs.IsEmpty() {
			err = t.MoveThreads(p)
		}
		switch {
		case err == nil:
			if before, is := t.OwnWrites[p].foreign(c, st); is && known && c.Exists {
				t.External = append(t.External, ExternalWrite{target, before, st})
				if !st.CPUs.Equal(before.CPUs) {
					// Who wrote the file may have written the record with it.
					c.RecordedKnown = false
				}
			}
			c.State, c.Exists = st, true
		case !errors.Is(err, cgroup.ErrGone):
			if errs == nil {
				errs = make(map[cgroup.Path]error)
			}
			t.Stale[p] = true
			errs[p] = err // and what it held last stands: others must not get it
			continue
		case m.Awaited(target):
			c.State, c.Exists = cgroup.State{Path: p}, false
		default:
			gone = append(gone, p)
			delete(t.Current, p)
			continue
		}
		t.Current[p] = c
		delete(t.Stale, p)
		if !t.Busy(p) {
			delete(t.OwnWrites, p)
		}
	}
	return gone, errs
}

// Submitted notes that a write was given to a worker: until it is known how it
// ended, the cgroup may get its value at any moment.
func (t *Cache) Submitted(w cgroup.Write) {
	c := t.Current[w.Path]
	t.Since(w.Path).persists(w, c)
	if cpus, ok := PersistedValue(w); ok {
		c.Pending = cpus
	}
	t.Current[w.Path] = c
	t.Pending[w.Path]++
}

// Begin and end enclose the time in which a worker is at a cgroup with what it was not
// given here.
func (t *Cache) Begin(p cgroup.Path) {
	d := t.Since(p)
	d.persisted, d.incomplete = true, true
	t.Pending[p]++
}

func (t *Cache) End(p cgroup.Path) {
	if t.Pending[p]--; t.Pending[p] == 0 {
		delete(t.Pending, p)
		delete(t.overridden, p)
	}
}

// Finished takes over what a worker's write has changed.
func (t *Cache) Finished(w cgroup.Write, unit cgroup.UnitState, err error) {
	overruled := t.overridden[w.Path]
	t.End(w.Path)
	c, known := t.Current[w.Path]
	if !known {
		return
	}
	if cpus, ok := PersistedValue(w); ok {
		if c.Pending.Equal(cpus) {
			c.Pending = cpuset.Set{}
		}
		if err == nil {
			c.Recorded, c.RecordedKnown = cpus, !overruled
			t.invalidateBelow(w.Path)
		}
	}
	if w.Property == cgroup.CRIMems && err == nil {
		if nodes, err := cpuset.Parse(w.Value); err == nil {
			c.RecordedMems = nodes
		}
	}
	c.Unit = unit // a CRI update, too, writes the unit's properties
	t.Current[w.Path] = c
	t.Invalidate(w.Path)
}

// Busy says that a worker is at the cgroup.
func (t *Cache) Busy(p cgroup.Path) bool { return t.Pending[p] > 0 }

// LearnUnit takes over what systemd has said.
func (t *Cache) LearnUnit(p cgroup.Path, unit cgroup.UnitState) {
	if c, ok := t.Current[p]; ok {
		c.Unit = unit
		t.Current[p] = c
	}
}

// PersistedValue returns the CPUs of a write that records a cpuset.
func PersistedValue(w cgroup.Write) (cpuset.Set, bool) {
	if w.Property != cgroup.CRICPUs && w.Property != cgroup.UnitCPUs {
		return cpuset.Set{}, false
	}
	cpus, err := cpuset.Parse(w.Value)
	return cpus, err == nil
}

// SettledCPUs are the CPUs that a container may have on record: those that were
// recorded last, or are being, or as many of them as its cgroup has been left by now.
// Empty if that is not known.
func (t *Cache) SettledCPUs(p cgroup.Path) cpuset.Set {
	c := t.Current[p]
	cpus := c.Pending
	if cpus.IsEmpty() && c.RecordedKnown {
		cpus = c.Recorded
	}
	if c.Exists && !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(cpus) {
		return c.CPUs
	}
	return cpus
}

// NoteOverride notes that an update is made with other CPUs than it asked for. If it is
// our own, what is on record after it is not what it says.
func (t *Cache) NoteOverride(p cgroup.Path) {
	if t.Pending[p] > 0 {
		t.overridden[p] = true
		t.Since(p).incomplete = true
	}
}

// NoteMissingUpdate ends what submitted has begun for a seal that nobody tells the end of:
// what is on record is to be asked for.
func (t *Cache) NoteMissingUpdate(p cgroup.Path, cpus cpuset.Set) {
	t.End(p)
	c, known := t.Current[p]
	if !known {
		return
	}
	if c.Pending.Equal(cpus) {
		c.Pending = cpuset.Set{}
	}
	c.RecordedKnown = false
	t.Current[p] = c
	t.Invalidate(p)
}
