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

// restPatience is how long a whole pass may be put off.
const restPatience = 250 * time.Millisecond

// restRatio is for how many times as long as a whole pass took the next one that nobody
// waits for is put off.
const restRatio = 100

// concern is whom an event concerns.
type concern int

const (
	ofNothing concern = iota // no pass is due for it
	ofNoPlan                 // nothing that the last plan was made of: a question, or an answer of the disk
	ofNobody                 // nobody but the pod or cgroup that it is about, if any; also its end, which others can wait for
	ofAnybody
)

// agenda is what is due since the last whole pass.
type agenda struct {
	// whole says that a whole pass is due at once, soon that one is due.
	whole, soon bool
	// files are the placed cgroups that somebody else has written to, each once.
	files []cgroup.Path
	// changed says that more is known than the last plan was made of, whomever it concerns.
	changed bool
	// rest is the time before which no whole pass is made that nobody waits for.
	rest time.Time
}

func (a *agenda) add(c concern) {
	a.soon = a.soon || c != ofNothing
	a.changed = a.changed || c > ofNoPlan
	a.whole = a.whole || c == ofAnybody
}

// written notes that somebody else has written to a placed cgroup.
func (a *agenda) written(p cgroup.Path) {
	a.add(ofNobody)
	if !slices.Contains(a.files, p) {
		a.files = append(a.files, p)
	}
}

func (a *agenda) asked() bool { return a.soon || a.whole }

// done notes a whole pass.
func (a *agenda) done(began, now time.Time) {
	*a = agenda{rest: now.Add(min(restRatio*now.Sub(began), restPatience))}
}

// concerning are events that may concern fewer than anybody.
type concerning interface {
	// concern is asked before the event is taken over.
	concern(l *loop) concern
}

// concern says whom an event concerns.
func (l *loop) concern(e actor.Event) concern {
	if c, ok := e.(concerning); ok && !l.awaited() {
		return c.concern(l)
	}
	return ofAnybody
}

// awaited says that somebody waits for what the next event may bring.
func (l *loop) awaited() bool {
	return !l.status.ready || !l.ledger.Safe() || filesWait(l.status.deferred) ||
		len(l.creating)+len(l.starting)+len(l.moving)+len(l.waiting) > 0
}

func (*createAsked) concern(*loop) concern { return ofNoPlan }

func (*startAsked) concern(*loop) concern { return ofNobody }

func (podHint) concern(*loop) concern { return ofNobody }

func (containerHint) concern(*loop) concern { return ofNobody }

func (unitRead) concern(*loop) concern { return ofNobody }

func (witnessArrived) concern(*loop) concern { return ofNobody }

func (e written) concern(*loop) concern { return ofNobodyUnless(e.err != nil || e.unmade) }

// Where the runtime asks first, containers are placed before they exist, else when an event
// tells of them. An error tells of nobody, or of an end.

func (e runtimeEvent) concern(l *loop) concern {
	return ofNobodyUnless(e.Kind == cri.ContainerStarted && !l.model.AsksFirst || e.Kind == cri.ContainerStopped && l.parted(e.ContainerID))
}

func (e podFetched) concern(l *loop) concern {
	return ofNobodyUnless(e.err == nil && (!l.model.AsksFirst || l.model.Pods[e.id] == nil))
}

func (e containerFetched) concern(l *loop) concern {
	return ofNobodyUnless(e.err == nil && (!l.model.AsksFirst || l.model.Containers[e.id] == nil || e.container.State == cri.Exited && l.parted(e.id)))
}

// parted says that a container is a partition, which is to be none before its cgroup goes.
func (l *loop) parted(container string) bool {
	e := l.model.Containers[container]
	return e != nil && l.isolation.outcomes[e.Path].Phase == cgroup.PartitionInForce
}

// What nobody waits for changes nothing when it is on the disk, and nothing newer is to follow it.

func (e saved) concern(l *loop) concern {
	if e.err == nil && !l.status.journalLate && e.upTo == l.ledger.Changes {
		return ofNothing
	}
	return ofNoPlan
}

func (e filesWritten) concern(l *loop) concern {
	switch {
	case e.err != nil:
		return ofAnybody
	case l.applications.done:
		return ofNothing
	}
	return ofNoPlan
}

func ofNobodyUnless(anybodys bool) concern {
	if anybodys {
		return ofAnybody
	}
	return ofNobody
}

// work does what is due.
func (l *loop) work() {
	began := time.Now()
	if !l.status.listed || !l.status.formulaAsked || l.Manager != nil && !l.kubelet.Told {
		l.agenda.done(began, began)
		l.publish()
		l.answerMoves()
		return
	}
	if !l.agenda.whole && l.narrow(began) && l.rests(began) {
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
	l.agenda.done(began, time.Now())
	l.saveMemory(time.Now())
}

// rests says that a whole pass is not due yet.
func (l *loop) rests(now time.Time) bool {
	if l.agenda.soon && !now.Before(l.agenda.rest) {
		return false
	}
	if l.agenda.soon {
		l.timers.rest.Reset(l.agenda.rest.Sub(now))
	}
	return true
}
