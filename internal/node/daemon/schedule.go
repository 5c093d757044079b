package daemon

import (
	"runtime"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
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

// scope is whom an event concerns.
type scope int

const (
	scopeNone   scope = iota // no pass is due for it
	scopeAnswer              // nothing that the last plan was made of: a question, or an answer of the disk
	scopeOne                 // nobody but the pod or cgroup that it is about, if any; also its end, which others can wait for
	scopeAll
)

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

func (a *schedule) asked() bool { return a.soon || a.full }

// done notes a whole pass.
func (a *schedule) done(began, now time.Time) {
	*a = schedule{earliestFull: now.Add(min(fullPassRatio*now.Sub(began), fullPassDelay))}
}

// concerning are events that may concern fewer than anybody.
type concerning interface {
	// concern is asked before the event is taken over.
	concern(l *Loop) scope
}

// scopeOf says whom an event concerns.
func (l *Loop) scopeOf(e actor.Event) scope {
	if c, ok := e.(concerning); ok && !l.awaited() {
		return c.concern(l)
	}
	return scopeAll
}

// awaited says that somebody waits for what the next event may bring.
func (l *Loop) awaited() bool {
	return !l.status.ready || !l.journal.Safe() || filesWait(l.status.deferred) ||
		len(l.creating)+len(l.starting)+len(l.moving)+len(l.waiting) > 0
}

func (*createRequest) concern(*Loop) scope { return scopeAnswer }

func (*startRequest) concern(*Loop) scope { return scopeOne }

func (podHint) concern(*Loop) scope { return scopeOne }

func (containerHint) concern(*Loop) scope { return scopeOne }

func (unitRead) concern(*Loop) scope { return scopeOne }

func (recordRead) concern(*Loop) scope { return scopeOne }

func (e written) concern(*Loop) scope { return oneUnless(e.err != nil || e.unmade) }

// Where the runtime asks first, containers are placed before they exist, else when an event
// tells of them. An error tells of nobody, or of an end.

func (e runtimeEvent) concern(l *Loop) scope {
	return oneUnless(e.Kind == cri.ContainerStarted && !l.inventory.AsksFirst || e.Kind == cri.ContainerStopped && l.parted(e.ContainerID))
}

func (e podFetched) concern(l *Loop) scope {
	return oneUnless(e.err == nil && (!l.inventory.AsksFirst || l.inventory.Pod(e.id) == nil))
}

func (e containerFetched) concern(l *Loop) scope {
	return oneUnless(e.err == nil && (!l.inventory.AsksFirst || l.inventory.Container(e.id) == nil || e.container.State == cri.Exited && l.parted(e.id)))
}

// parted says that a container is a partition, which is to be none before its cgroup goes.
func (l *Loop) parted(container string) bool {
	e := l.inventory.Container(container)
	return e != nil && l.isolation.outcomes[e.Path].Phase == cgroup.PartitionInForce
}

// What nobody waits for changes nothing when it is on the disk, and nothing newer is to follow it.

func (e saved) concern(l *Loop) scope {
	if e.err == nil && !l.status.journalLate && e.upTo == l.journal.Changes {
		return scopeNone
	}
	return scopeAnswer
}

func (e filesWritten) concern(l *Loop) scope {
	switch {
	case e.err != nil:
		return scopeAll
	case l.applications.done:
		return scopeNone
	}
	return scopeAnswer
}

func oneUnless(anybodys bool) scope {
	if anybodys {
		return scopeAll
	}
	return scopeOne
}

// work does what is due.
func (l *Loop) work() {
	began := time.Now()
	if !l.status.listed || !l.status.formulaAsked || l.CPUManager != nil && !l.kubelet.Told {
		l.schedule.done(began, began)
		l.publish()
		l.answerMoves()
		return
	}
	if !l.schedule.full && l.narrow(began) && l.waitsForFull(began) {
		return
	}
	l.pass()
	for l.answerHooks(time.Now()) || l.retryMoves() {
		l.pass()
	}
	runtime.Gosched() // who has got an answer goes on first
	l.watchAll()
	l.save(time.Now()) // what was noted with an answer
	l.publish()
	l.armRetry(l.status.began)
	l.answerMoves()
	l.schedule.done(began, time.Now())
	l.releaseMemory(time.Now())
}

// waitsForFull says that a whole pass is not due yet.
func (l *Loop) waitsForFull(now time.Time) bool {
	if l.schedule.soon && !now.Before(l.schedule.earliestFull) {
		return false
	}
	if l.schedule.soon {
		l.timers.full.Reset(l.schedule.earliestFull.Sub(now))
	}
	return true
}
