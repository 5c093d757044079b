package daemon

import (
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Replies before the first pass
//
// A daemon that has placed containers of this boot before connects to NRI at once. A busy
// runtime can need a minute for the first listing, and a container that it creates meanwhile
// would run on all CPUs. The inventory is incomplete until then. So an early reply gives only
// the CPUs of a pool without the exclusive CPUs in the journal. The journal has all of them,
// because a reply waits until the journal is on disk (see send). A container that needs
// exclusive CPUs waits for the first pass, as long as the budget for waits allows it. Then the
// daemon refuses it, or, with onRefusal: shared, places it in the shared pool. The first pass
// checks all early replies.

// firstAnswer is how long the first listing waits for the runtime to connect over NRI. A
// listing that begins after the connection contains the resizes before it, of which only NRI
// has events.
const firstAnswer = time.Second

// begin starts the first listing. With early replies it comes after the answer of NRI.
func (l *Loop) begin() {
	if l.NRISocket == "" || l.journal.WasBare() {
		l.list()
		return
	}
	l.openNRI()
	l.timers.resync.set(l.now().Add(firstAnswer))
}

var errEarly = errors.New("the daemon has just started and does not know yet which CPUs are free; the kubelet tries again")

// answerEarly answers requests before the first pass.
func (l *Loop) answerEarly() {
	l.noteStarts()
	for l.answerHooks(l.now()) {
	}
	l.nextHook(func(at time.Time) {
		if due := l.timers.retry.due; !at.IsZero() && (due.IsZero() || at.Before(due)) {
			l.timers.retry.set(at)
		}
	})
}

// earlyPlan returns the plan for replies before the first pass.
func (l *Loop) earlyPlan(now time.Time) pools.Plan {
	in := desired.Input{Settings: l.settings, Pods: l.inventory.Input(now), Previous: l.journal.Assignments(), Namespaces: l.permission.rights(), Build: pools.Build}
	return in.Early()
}

// decideEarly returns the reply to a before the first pass, and whether it is decided. pod and
// p are the placement of the container in the early plan, or nil.
func (l *Loop) decideEarly(a *createRequest, pod *pools.PodPlan, p *pools.Placement, now time.Time) (createAnswer, bool) {
	switch {
	case p == nil:
		return createAnswer{err: errUnknownPod}, true
	case p.Pool == pools.Other, l.CPUManager != nil: // the request has the CPUs of the kubelet
		return createAnswer{reply: l.replyUnmanaged(a)}, true
	}
	whole := p.Exclusive || p.Refused != nil || p.Reason.Code == pools.CodeWaiting
	if whole || p.CPUs.IsEmpty() {
		if !a.wait.IsOver(now) {
			return createAnswer{}, false
		}
		if p.CPUs.IsEmpty() || l.settings.Config.OnRefusal != config.RefusalShared {
			return createAnswer{err: errEarly}, true
		}
	}
	shared := *p
	shared.Exclusive, shared.Mixed = false, cpuset.Set{}
	l.noteCreated(l.inventory.Container(a.container.ID), &shared)
	return createAnswer{reply: l.reply(a, pod, &shared, shared.CPUs)}, true
}

// decideEarlyStart reports whether the reply to a is decided before the first pass, and the
// refusal. A container with recorded CPUs has them from a reply or from the kubelet.
func (l *Loop) decideEarlyStart(a *startRequest, now time.Time) (done bool, refusal error) {
	e := l.inventory.Container(a.id)
	switch {
	case e != nil && !e.Recorded.IsEmpty():
		return true, nil
	case !a.wait.IsOver(now):
		return false, nil
	case e != nil && l.inventory.MayBeExclusive(e) && l.CPUManager == nil && l.settings.Config.OnRefusal != config.RefusalShared:
		return true, errEarly
	}
	return true, nil
}

// heldReply is a reply that waits for the journal.
type heldReply struct {
	request *createRequest
	answer  createAnswer
	change  int // the newest change of the journal that the disk must have
}

// send sends a reply as soon as the journal on disk has the CPUs and the originals of its
// container. Otherwise a daemon that ends now would leave CPUs to which nothing on disk refers,
// and restore could not undo them.
func (l *Loop) send(a *createRequest, c createAnswer) {
	l.requests.held = append(l.requests.held, heldReply{a, c, l.journal.Newest()})
	l.releaseReplies()
	if len(l.requests.held) == 0 {
		return
	}
	l.save(l.now())
	if l.timers.journal.due.IsZero() { // an earlier save is in progress, for which nothing waited
		l.timers.journal.set(l.now().Add(journalTimeout))
	}
}

// releaseReplies sends the replies for which the journal is on disk, or late.
func (l *Loop) releaseReplies() {
	var held []heldReply
	for _, r := range l.requests.held {
		if l.journal.Holds(r.change) {
			held = append(held, r)
			continue
		}
		if isClosed(r.request.canceled) {
			l.cancelCreate(r.request)
			l.fetchContainer(r.request.container.ID) // the runtime may have created it without a reply
			l.schedule.full = true
			continue
		}
		l.noteReply(r.request, l.now())
		r.request.answer <- r.answer
	}
	l.requests.held = held
}
