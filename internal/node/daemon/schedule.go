package daemon

import (
	"runtime"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Which pass is due, and when
//
// A whole pass compares everything with everything: what should be is a function of all
// that is known, so that no event can be misunderstood for longer than until the next one.
// It takes longer the more containers there are, and most events concern nobody but a
// single pod or cgroup, or nobody at all. So an event says whom it concerns. Where
// somebody waits for an answer, or a cgroup is to be repaired, there is a narrow pass
// (narrow.go), at once. After it, and after what concerns nobody, a whole pass comes as
// well, but not before the one before has been over for a hundred times as long as it
// took: what nobody waits for takes no more than a hundredth of a CPU, with any number of
// containers. It comes after restPatience at the latest.

// fullPassDelay is how long a whole pass may be put off.
const fullPassDelay = 250 * time.Millisecond

// fullPassRatio is for how many times as long as a whole pass took the next one that nobody
// waits for is put off.
const fullPassRatio = 100

// schedule is what is due since the last whole pass.
type schedule struct {
	// full says that a whole pass is due at once, soon that one is due.
	full, soon bool
	// files are the placed cgroups that somebody else has written to, each once.
	files []cgroup.Path
	// changed says that more is known than the last plan was made of, whomever it concerns.
	changed bool
	// earliestFull is the time before which no whole pass is made that nobody waits for.
	earliestFull time.Time
}

func (a *schedule) add(c scope) {
	a.soon = a.soon || c != scopeNone
	a.changed = a.changed || c > scopeAnswer
	a.full = a.full || c == scopeAll
}

// written notes that somebody else has written to a placed cgroup.
func (a *schedule) written(p cgroup.Path) {
	a.add(scopeOne)
	if !slices.Contains(a.files, p) {
		a.files = append(a.files, p)
	}
}

func (a *schedule) isDue() bool { return a.soon || a.full }

// done notes a whole pass.
func (a *schedule) done(began, now time.Time) {
	*a = schedule{earliestFull: now.Add(min(fullPassRatio*now.Sub(began), fullPassDelay))}
}

// scopeOf returns the scope of an event, which is applied next.
func (l *Loop) scopeOf(e event) scope {
	if l.hasWaiting() {
		return scopeAll
	}
	return e.scope(l)
}

// hasWaiting says that somebody waits for what the next event may bring.
func (l *Loop) hasWaiting() bool {
	return !l.status.ready || !l.journal.Safe() || filesWait(l.status.deferred) ||
		len(l.creating)+len(l.starting)+len(l.moving)+len(l.waiting) > 0
}

// work does what is due.
func (l *Loop) work() {
	began := l.now()
	if !l.status.listed || !l.status.formulaAsked || l.CPUManager != nil && !l.kubelet.IsKnown() {
		l.schedule.done(began, began)
		l.publish()
		l.answerMoves()
		return
	}
	if !l.schedule.full && l.partialPass(began) && l.waitsForFull(began) {
		return
	}
	l.pass()
	for l.answerHooks(l.now()) || l.retryMoves() {
		l.pass()
	}
	runtime.Gosched() // who has got an answer goes on first
	l.watchAll()
	l.save(l.now()) // what was noted with an answer
	l.publish()
	l.armRetry(l.status.began)
	l.answerMoves()
	l.schedule.done(began, l.now())
	l.releaseMemory(l.now())
}

// waitsForFull says that a whole pass is not due yet.
func (l *Loop) waitsForFull(now time.Time) bool {
	if l.schedule.soon && !now.Before(l.schedule.earliestFull) {
		return false
	}
	if l.schedule.soon {
		l.timers.full.set(l.schedule.earliestFull)
	}
	return true
}
