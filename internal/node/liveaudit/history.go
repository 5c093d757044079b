package liveaudit

import (
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
)

// formerTTL is the time for which a former owner is known. The reader of reports takes less.
const formerTTL = time.Minute

// history holds the owners that CPUs had before the present ones.
type history struct {
	former map[string]former // By the key of the owner.
	now    interval          // Since the begin of the latest reading.
}

type former struct {
	*holder

	until time.Time
}

// interval is the time between two readings. A reading does not state when a task ran.
type interval struct {
	latest map[int]*holder // The last owner of each CPU.
	mixed  map[int]bool    // CPUs that had several owners.
}

func newInterval(held map[int]*holder) interval {
	return interval{latest: maps.Clone(held), mixed: make(map[int]bool)}
}

func (i interval) meet(cpu int, h *holder) {
	if was := i.latest[cpu]; was != nil && was.key != h.key {
		i.mixed[cpu] = true
	}
	i.latest[cpu] = h
}

// owner returns the only owner of a CPU. It is nil if the CPU had several ones or none.
func (i interval) owner(cpu int) *holder {
	if i.mixed[cpu] {
		return nil
	}
	return i.latest[cpu]
}

// isOwn reports whether a task belongs to the only owner of its CPU.
func (i interval) isOwn(t *schedwatch.Task) bool {
	h := i.owner(t.CPU)
	return h != nil && h.owns(t.Cgroup)
}

// and returns one interval for two successive ones.
func (i interval) and(next interval) interval {
	both := interval{latest: maps.Clone(i.latest), mixed: maps.Clone(i.mixed)}
	for cpu, h := range next.latest {
		both.meet(cpu, h)
	}
	maps.Copy(both.mixed, next.mixed)
	return both
}

// end notes that an owner has lost CPUs.
func (y *history) end(h *holder, now time.Time) { y.former[h.key] = former{h, now} }

// next begins the next interval, and returns the last one. It forgets owners that ended long ago.
func (y *history) next(held map[int]*holder, now time.Time) interval {
	last := y.now
	y.now = newInterval(held)
	maps.DeleteFunc(y.former, func(_ string, f former) bool { return now.Sub(f.until) >= formerTTL })
	return last
}

// ownerAt returns the owner with a key that a CPU has, or that had CPUs a short time ago; nil if it is unknown.
// a.mu is held.
func (a *Audit) ownerAt(cpu int, key string) *holder {
	if h := a.held[cpu]; h != nil && h.key == key {
		return h
	}
	return a.history.former[key].holder
}
