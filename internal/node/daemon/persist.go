package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// submit hands a write to a worker. Workers make the writes of one cgroup in order. refused
// holds the CPUs that the runtime has failed to record in this round; only jobs of the cgroup
// use it. A job then sends systemd no weight, because systemd would restore older CPUs with it.
func (l *Loop) submit(w cgroup.Write, refused *cpuset.Set) {
	l.cache.NoteSubmitted(w)
	l.workers.Updates.Submit(string(w.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		if !refused.IsEmpty() {
			// Without recorded CPUs, systemd would clear the file (kernel 7.0 and later).
			if u := l.UnitState(ctx, w.Path); !u.Known || !u.CPUs.Equal(*refused) {
				return written{write: w, unit: u, skipped: true}
			}
		}
		err := l.Record(ctx, w)
		if cpus, ok := kernelstate.PersistedCPUs(w); ok && err != nil {
			*refused = cpus
		}
		return written{write: w, unit: l.UnitState(ctx, w.Path), err: err}
	})
}

// written is the result of one write that a worker made.
type written struct {
	write   cgroup.Write
	unit    cgroup.UnitState // the properties in systemd after the write
	err     error
	skipped bool // not made, because it would have restored older CPUs
}

func (e written) scope(*Loop) scope { return oneUnless(e.err != nil || e.skipped) }

func (e written) apply(l *Loop) {
	now := l.now()
	if l.inventory.IsAwaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that does not exist yet
	}
	if _, ok := kernelstate.PersistedCPUs(e.write); ok {
		l.exposureMeter.NotePersisted(e.write.Path)
	}
	l.cache.NoteFinished(e.write, e.unit, e.err)
	if e.skipped {
		return
	}
	l.count(e.write, e.err)
	switch {
	case e.err == nil:
		l.backoffs.Succeed(e.write, now)
		if c := l.inventory.ContainerAt(e.write.Path); c != nil {
			l.inventory.NotePersisted(c)
		}
		if e.write.Via == cgroup.CRI {
			delete(l.pendingUpdates.failed, e.write.Container)
			if c := l.inventory.Container(e.write.Container); c != nil && c.Container.State == cri.Created {
				c.FoundBy(telemetry.WaySpec)
			}
		}
	case hostenv.IsGone(e.err):
		l.cgroupGone(e.write.Path)
		l.backoffs.Refuse(e.write, e.err, now) // possibly only its recorder has gone
	default:
		l.backoffs.Refuse(e.write, e.err, now)
	}
}

func (written) ownResult() {}

// replyUpdateTimeout is the time for each update of a reply before the daemon reads the
// result. The runtime's next request also shows that the updates are made, because the
// runtime handles one request at a time.
const replyUpdateTimeout = 500 * time.Millisecond

// maxReplyUpdates is the maximum number of updates in one reply. Each runs the OCI runtime
// while every creation on the node waits. Workers update the records of other containers.
const maxReplyUpdates = 8

// pendingUpdate is an update sent in an NRI reply, which the runtime makes before it creates a
// container. The runtime does not report the result, so the daemon reads its record later.
type pendingUpdate struct {
	path cgroup.Path
	cpus cpuset.Set
	due  time.Time // when the daemon reads the record; zero before the reply
	// querying is true while the daemon reads the record.
	querying bool
}

// pendingUpdates holds the pending updates by container.
type pendingUpdates struct {
	open map[string]*pendingUpdate // not settled
	// failed holds the containers whose last update was not made. Their updates go through
	// a worker until one succeeds: one hung shim would otherwise block every creation on the
	// node.
	failed map[string]bool
}

func newPendingUpdates() pendingUpdates {
	return pendingUpdates{open: make(map[string]*pendingUpdate), failed: make(map[string]bool)}
}

// addToReply adds a write to the open NRI reply if it removes the CPUs of the new container from
// another container's record. It reports whether it has added the write.
func (l *Loop) addToReply(w cgroup.Write) bool {
	if w.Property != cgroup.CRICPUs || len(l.requests.creates) == 0 || l.pendingUpdates.failed[w.Container] {
		return false
	}
	a := l.requests.creates[0] // the runtime sends one request at a time
	if len(a.updates) == maxReplyUpdates {
		return false
	}
	_, p := findPlacement(&l.status.plan, a.container.ID)
	cpus, err := cpuset.Parse(w.Value)
	recorded := l.cache.Current(w.Path).Recorded
	if e := l.inventory.Container(w.Container); e == nil || e.IsUnconfirmed() || err != nil || p == nil || !p.Exclusive && !p.InPodPool() ||
		!recorded.Overlaps(p.CPUs) || cpus.Overlaps(p.CPUs) {
		return false
	}
	a.updates = append(a.updates, nri.Update{Container: w.Container, CPUs: cpus})
	l.pendingUpdates.open[w.Container] = &pendingUpdate{path: w.Path, cpus: cpus}
	l.cache.NoteSubmitted(w)
	return true
}

// noteReply sets the time at which the daemon reads the results of the updates of a reply.
func (l *Loop) noteReply(a *createRequest, now time.Time) {
	for _, u := range a.updates {
		if p := l.pendingUpdates.open[u.Container]; p != nil {
			p.due = now.Add(replyUpdateTimeout * time.Duration(len(a.updates)))
		}
	}
}

// dropUpdates drops updates that no reply contains.
func (l *Loop) dropUpdates(updates []nri.Update) {
	for _, u := range updates {
		if p := l.pendingUpdates.open[u.Container]; p != nil {
			delete(l.pendingUpdates.open, u.Container)
			l.cache.NoteMissingUpdate(p.path, p.cpus)
		}
	}
}

// settleUpdates reads the results of the updates that are due, or of all updates in a reply.
func (l *Loop) settleUpdates(all bool, now time.Time) {
	for id, p := range l.pendingUpdates.open {
		if p.querying || p.due.IsZero() || !all && now.Before(p.due) {
			continue
		}
		p.querying = true
		// The queue of the cgroup's slow writes, so that later writes follow the answer.
		l.workers.Updates.Submit(string(p.path), func(ctx context.Context) event {
			return updateSettled{inventory.FetchContainer(ctx, &l.Host, id, 0)}
		})
	}
}

// nextUpdate calls earlier with the times at which updates are due.
func (l *Loop) nextUpdate(earlier func(time.Time)) {
	for _, p := range l.pendingUpdates.open {
		if !p.querying && !p.due.IsZero() {
			earlier(p.due)
		}
	}
}

// updateSettled is the runtime's record of a container with a pending update.
type updateSettled struct{ inventory.ContainerStatus }

func (e updateSettled) apply(l *Loop) {
	p := l.pendingUpdates.open[e.ID]
	if p == nil {
		return
	}
	delete(l.pendingUpdates.open, e.ID)
	l.cache.NoteMissingUpdate(p.path, p.cpus)
	containerFetched(e).apply(l)
	if c := l.inventory.Container(e.ID); c != nil && c.Container.State != cri.Exited && !c.Recorded.Equal(p.cpus) {
		l.pendingUpdates.failed[e.ID] = true
		l.log.Warn("runtime skipped an NRI update; retrying over CRI", "container_id", e.ID, "want", p.cpus, "has", c.Recorded)
	} else {
		l.count(cgroup.Write{Path: p.path, Via: cgroup.NRI, Property: cgroup.CRICPUs, Value: p.cpus.String(), Container: e.ID, Reason: "gave way"}, nil)
	}
}

// lastReply is the time from a request to its reply if the disk does not answer. The connection
// cancels a request after 1.5 s of the runtime's 2 s.
const lastReply = waits.Timeout + 300*time.Millisecond

// send sends a reply as soon as the journal on disk has the CPUs and the originals of its
// container. Otherwise a daemon that ends now would leave CPUs to which nothing on disk refers,
// and restore could not undo them.
func (l *Loop) send(a *createRequest, c createAnswer) {
	due := l.now().Add(journalTimeout)
	if last := a.since.Add(lastReply); last.Before(due) {
		due = last
	}
	l.requests.held = append(l.requests.held, heldReply{a, c, l.journal.Newest(), due})
	l.releaseReplies()
}

// releaseReplies sends the replies for which the journal is on disk, or late. For the others it
// saves the journal.
func (l *Loop) releaseReplies() {
	var held []heldReply
	for _, r := range l.requests.held {
		switch {
		case l.journal.MustWait(r.change):
			held = append(held, r)
		case isClosed(r.request.canceled):
			l.cancelCreate(r.request)
			l.fetchContainer(r.request.container.ID) // the runtime may have created it without a reply
		default:
			l.noteReply(r.request, l.now())
			r.request.answer <- r.answer
		}
	}
	if l.requests.held = held; len(held) == 0 {
		return
	}
	l.save(l.now())
	if due := l.timers.journal.due; due.IsZero() || held[0].due.Before(due) {
		l.timers.journal.set(held[0].due)
	}
}
