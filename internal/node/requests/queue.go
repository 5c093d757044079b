package requests

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// lastReply is the time from a request to its reply if the reply waits for a disk that does not answer. The connection
// cancels a request after 1.5 s of the runtime's 2 s.
const lastReply = waits.Timeout + 300*time.Millisecond

// Queue holds the requests of the runtime that are not answered, and the updates in replies
// whose result is unknown.
type Queue struct {
	inventory   *inventory.Inventory
	cache       *kernelstate.Cache
	journal     *undo.Journal
	diskTimeout time.Duration
	clock       func() time.Time
	log         *slog.Logger

	creates  []*Create // the runtime sends one at a time, and may cancel it
	starts   []*Start
	held     []heldReply // decided
	canceled []string    // containers that the runtime may have created without a reply
	budget   waits.Budget
	updates  map[string]*update // not settled, by container
	// failed holds the containers whose last update was not made. Their updates go through
	// a worker until one succeeds: one hung shim would otherwise block every creation on the
	// node.
	failed  map[string]bool
	replies replyTimes
}

// heldReply is a reply that waits for the journal.
type heldReply struct {
	create *Create
	reply  nri.Reply
	change int       // the newest change that the journal's files must have
	due    time.Time // then the reply goes out without the disk
}

// New returns a queue without requests. A reply waits for the journal for at most diskTimeout. clock
// measures the replies.
func New(m *inventory.Inventory, cache *kernelstate.Cache, journal *undo.Journal, diskTimeout time.Duration, clock func() time.Time, log *slog.Logger) *Queue {
	return &Queue{
		inventory: m, cache: cache, journal: journal, diskTimeout: diskTimeout, clock: clock, log: log,
		replies: newReplyTimes(),
		updates: make(map[string]*update), failed: make(map[string]bool),
	}
}

// AddCreate adds a request, and its container to the inventory. The kubelet requests CPUs only
// if its CPU manager is static (kubeletPlaces).
func (q *Queue) AddCreate(a *Create, kubeletPlaces bool) *inventory.Container {
	q.creates = append(q.creates, a)
	return q.inventory.Expect(a.Pod, a.Container, kubeletPlaces)
}

// AddStart adds a request. It reports whether the runtime's report of the container is missing.
func (q *Queue) AddStart(a *Start) (fetch bool) {
	q.starts = append(q.starts, a)
	e := q.inventory.Objects().Container(a.ID)
	return e == nil || e.IsUnconfirmed()
}

// MarkStarting records that the cgroups of starting containers exist and may be written. A
// container that is not in the inventory follows when the runtime has reported it.
func (q *Queue) MarkStarting() {
	for _, a := range q.starts {
		if e := q.inventory.Objects().Container(a.ID); e != nil && !a.noted {
			a.noted = true
			q.inventory.MarkStarting(e)
			q.cache.Invalidate(e.Path)
		}
	}
}

// IsEmpty reports whether no request waits for a decision.
func (q *Queue) IsEmpty() bool { return len(q.creates)+len(q.starts) == 0 }

// IsWaiting reports whether a request waits because it could not be decided.
func (q *Queue) IsWaiting() bool {
	return slices.ContainsFunc(q.creates, func(a *Create) bool { return !a.wait.Until().IsZero() }) ||
		slices.ContainsFunc(q.starts, func(a *Start) bool { return !a.wait.Until().IsZero() })
}

// NextCreate returns the oldest creation without a decision, or nil.
func (q *Queue) NextCreate() *Create { return first(q.creates) }

// NextStart returns the oldest start without a decision, or nil.
func (q *Queue) NextStart() *Start { return first(q.starts) }

func first[A any](all []*A) *A {
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// AnswerCreates calls decide for each creation, and takes its reply, its refusal, or
// ErrUndecided. Release sends the replies. It reports whether another pass is needed: a
// container is not created, or a request can wait no longer.
func (q *Queue) AnswerCreates(now time.Time, decide func(*Create) (nri.Reply, error)) (again bool) {
	q.creates = slices.DeleteFunc(q.creates, func(a *Create) bool {
		if a.IsCanceled() {
			q.budget.End(&a.wait, now)
			q.abandon(a)
			again = true
			return true
		}
		reply, err := decide(a)
		if errors.Is(err, ErrUndecided) {
			again = q.budget.Begin(&a.wait, a.Pod.UID, a.since, now) || again
			return false
		}
		q.budget.End(&a.wait, now)
		if err != nil {
			q.inventory.CancelCreate(a.Container.ID)
			q.dropUpdates(a)
			q.answerCreate(a, nri.Reply{}, err)
			again = true
			return true
		}
		q.hold(a, reply, now)
		return true
	})
	return again
}

// Accept takes the reply to a creation.
func (q *Queue) Accept(a *Create, reply nri.Reply, now time.Time) {
	q.budget.End(&a.wait, now)
	q.hold(a, reply, now)
	q.creates = slices.DeleteFunc(q.creates, func(o *Create) bool { return o == a })
}

// hold keeps a reply until a file of the journal, in memory or on disk, has the CPUs and the originals
// of its container. Otherwise a daemon that ends now would leave CPUs to which no file refers, and
// restore could not undo them.
func (q *Queue) hold(a *Create, reply nri.Reply, now time.Time) {
	due := now.Add(q.diskTimeout)
	if last := a.since.Add(lastReply); last.Before(due) {
		due = last
	}
	reply.Updates = a.updates
	q.held = append(q.held, heldReply{a, reply, q.journal.Newest(), due})
}

// Release sends the replies that a file of the journal has, or for which the disk is late. It returns the
// containers whose creations the runtime has canceled: it may have created them without a
// reply.
func (q *Queue) Release(now time.Time) (canceled []string) {
	q.held = slices.DeleteFunc(q.held, func(r heldReply) bool {
		switch {
		case q.journal.MustWait(r.change):
			return false
		case r.create.IsCanceled():
			q.abandon(r.create)
		default:
			q.scheduleUpdates(r.create, now)
			q.answerCreate(r.create, r.reply, nil)
		}
		return true
	})
	canceled, q.canceled = q.canceled, nil
	return canceled
}

// HeldUntil returns the time at which the oldest held reply goes out without the disk. It is
// zero if no reply is held.
func (q *Queue) HeldUntil() time.Time {
	if len(q.held) == 0 {
		return time.Time{}
	}
	return q.held[0].due
}

// abandon drops a request that the runtime has canceled. The runtime may create the container
// nevertheless, and only the request states that another plugin places it.
func (q *Queue) abandon(a *Create) {
	q.observe(&q.replies.creates, a.since)
	q.inventory.AbandonCreate(a.Container.ID)
	q.dropUpdates(a)
	q.canceled = append(q.canceled, a.Container.ID)
}

// AnswerStarts calls decide for each start, and takes nil, a refusal, or ErrUndecided. pod is
// the planned pod of the container, or nil. It reports whether a request can wait no longer, so
// that another pass is needed.
func (q *Queue) AnswerStarts(now time.Time, decide func(*Start) (pod *pools.PodPlan, err error)) (again bool) {
	q.starts = slices.DeleteFunc(q.starts, func(a *Start) bool {
		pod, err := decide(a)
		waiting := errors.Is(err, ErrUndecided)
		if waiting && !a.IsCanceled() {
			again = q.budget.Begin(&a.wait, startKey(pod), a.since, now) || again
			return false
		}
		q.budget.End(&a.wait, now)
		q.observe(&q.replies.starts, a.since)
		if !waiting {
			a.Answer(struct{}{}, err)
		}
		return true
	})
	return again
}

// Allow lets the first process of a container continue.
func (q *Queue) Allow(a *Start, now time.Time) {
	q.budget.End(&a.wait, now)
	q.observe(&q.replies.starts, a.since)
	a.Answer(struct{}{}, nil)
	q.starts = slices.DeleteFunc(q.starts, func(o *Start) bool { return o == a })
}

// startKey is the key of waits of start requests. It differs from the key of creations: a pod
// whose creation has waited may need time for its partition.
func startKey(pod *pools.PodPlan) string {
	if pod == nil {
		return "start"
	}
	return "start " + pod.UID
}

// Late returns the owners whose creations wait no longer. They are decided without the
// kubelet's hints.
func (q *Queue) Late(now time.Time) (keys []pools.Key) {
	for _, a := range q.creates {
		if e := q.inventory.Objects().Container(a.Container.ID); e != nil && a.IsLate(now) {
			keys = append(keys, e.Key())
		}
	}
	return keys
}

// Next calls earlier with the ends of the waits of the requests, and with the times at which
// updates are due.
func (q *Queue) Next(earlier func(time.Time)) {
	for _, a := range q.creates {
		earlier(a.wait.Until())
	}
	for _, a := range q.starts {
		earlier(a.wait.Until())
	}
	for _, u := range q.updates {
		if !u.querying && !u.due.IsZero() {
			earlier(u.due)
		}
	}
}

// ShortenedWaits returns the number of requests that were decided at the end of a wait shorter
// than waits.Timeout.
func (q *Queue) ShortenedWaits() uint64 { return q.budget.ShortenedWaits() }
