package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// submit hands a write to a worker. Writes of one cgroup are made in order. The CPUs
// that its runtime has refused to record in this round are for its jobs alone: systemd
// must not be told a weight then, with which it would put others back.
func (l *Loop) submit(w cgroup.Write, refused *cpuset.Set) {
	l.cache.NoteSubmitted(w)
	l.workers.Updates.Submit(string(w.Path), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.UpdateTimeout)
		defer cancel()
		if !refused.IsEmpty() {
			// That it has none is no better: from kernel 7.0 on it would clear the file.
			if u := hostenv.UnitState(ctx, l.Units, w.Path); !u.Known || !u.CPUs.Equal(*refused) {
				return written{write: w, unit: u, skipped: true}
			}
		}
		err := l.Record(ctx, w)
		if cpus, ok := kernelstate.PersistedCPUs(w); ok && err != nil {
			*refused = cpus
		}
		return written{write: w, unit: hostenv.UnitState(ctx, l.Units, w.Path), err: err}
	})
}

func (e written) scope(*Loop) scope { return oneUnless(e.err != nil || e.skipped) }

func (e written) apply(l *Loop) {
	now := l.now()
	if l.inventory.IsAwaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that is being made
	}
	if _, seals := kernelstate.PersistedCPUs(e.write); seals {
		l.exposureMeter.finish(e.write.Path, false)
	}
	l.cache.NoteFinished(e.write, e.unit, e.err)
	if e.skipped {
		return
	}
	l.count(e.write, e.err)
	switch {
	case e.err == nil:
		l.backoffs.Succeed(e.write, now)
		if e.write.Via == cgroup.CRI {
			delete(l.pendingUpdates.failed, e.write.Container)
			if c := l.inventory.Container(e.write.Container); c != nil && c.Container.State == cri.Created {
				c.FoundBy(telemetry.WaySpec)
			}
		}
	case hostenv.IsGone(e.err):
		l.cgroupGone(e.write.Path)
		l.backoffs.Refuse(e.write, e.err, now) // in case that only its recorder is gone
	default:
		l.backoffs.Refuse(e.write, e.err, now)
	}
}

func (written) ownResult() {}

// replyUpdateTimeout is how long the runtime has, after a reply, for each update in it,
// before it is asked what has become of them. Its next request says that too: it makes
// one after the other.
const replyUpdateTimeout = 500 * time.Millisecond

// maxReplyUpdates bounds the updates of one reply: each runs the OCI runtime while every
// creation on the node waits. The others have left by file as well, and workers have
// their records changed.
const maxReplyUpdates = 8

// pendingUpdate is an update that the runtime makes before it creates a container. It tells
// nobody how that ended, so it is asked afterwards what it has on record.
type pendingUpdate struct {
	path cgroup.Path
	cpus cpuset.Set
	// due is when it should have been kept; zero until the reply is given.
	due time.Time
	// querying says that the runtime has been asked.
	querying bool
}

// pendingUpdates are those that nothing is known of yet, by container.
type pendingUpdates struct {
	open map[string]*pendingUpdate
	// failed are containers whose last promise was not kept. They get no other until
	// a worker has got through to them: the runtime makes the updates of a reply while
	// every creation on the node waits, so one hung shim would stop them all.
	failed map[string]bool
}

func newPendingUpdates() pendingUpdates {
	return pendingUpdates{open: make(map[string]*pendingUpdate), failed: make(map[string]bool)}
}

// isPending puts a write into the reply that is being made, if it belongs there: it
// takes a container's record off the CPUs of the one that is being created.
func (l *Loop) isPending(w cgroup.Write) bool {
	if w.Property != cgroup.CRICPUs || len(l.creating) == 0 || l.pendingUpdates.failed[w.Container] {
		return false
	}
	a := l.creating[0] // the runtime asks one question at a time
	if len(a.updates) == maxReplyUpdates {
		return false
	}
	_, p := findPlacement(&l.status.plan, a.container.ID)
	cpus, err := cpuset.Parse(w.Value)
	recorded := l.cache.Current(w.Path).Recorded
	if e := l.inventory.Container(w.Container); e == nil || e.IsUnconfirmed() || err != nil || p == nil || !p.Exclusive ||
		!recorded.Overlaps(p.CPUs) || cpus.Overlaps(p.CPUs) {
		return false
	}
	a.updates = append(a.updates, nri.Update{Container: w.Container, CPUs: cpus})
	l.pendingUpdates.open[w.Container] = &pendingUpdate{path: w.Path, cpus: cpus}
	l.cache.NoteSubmitted(w)
	return true
}

// noteReply notes that a reply is on its way.
func (l *Loop) noteReply(a *createRequest, now time.Time) {
	for _, u := range a.updates {
		if p := l.pendingUpdates.open[u.Container]; p != nil {
			p.due = now.Add(replyUpdateTimeout * time.Duration(len(a.updates)))
		}
	}
}

// dropUpdates takes back what no reply will have.
func (l *Loop) dropUpdates(updates []nri.Update) {
	for _, u := range updates {
		if p := l.pendingUpdates.open[u.Container]; p != nil {
			delete(l.pendingUpdates.open, u.Container)
			l.cache.NoteMissingUpdate(p.path, p.cpus)
		}
	}
}

// settleUpdates asks the runtime what has become of those that are due, or of all
// that have been sent.
func (l *Loop) settleUpdates(all bool, now time.Time) {
	for id, p := range l.pendingUpdates.open {
		if p.querying || p.due.IsZero() || !all && now.Before(p.due) {
			continue
		}
		p.querying = true
		// Among the seals: what is asked for next comes after it.
		l.workers.Updates.Submit(string(p.path), func(ctx context.Context) event {
			return updateSettled{inventory.FetchContainer(ctx, &l.Host, id, 0)}
		})
	}
}

// nextUpdate calls earlier with the times at which promises are due.
func (l *Loop) nextUpdate(earlier func(time.Time)) {
	for _, p := range l.pendingUpdates.open {
		if !p.querying && !p.due.IsZero() {
			earlier(p.due)
		}
	}
}

// updateSettled is what the runtime has on record for a container that it promised to
// update.
type updateSettled struct{ inventory.ContainerStatus }

func (updateSettled) scope(*Loop) scope { return scopeAll }

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
		l.log.Warn("the runtime has not made the update of its NRI reply; it is asked for over CRI", "container_id", e.ID, "want", p.cpus, "has", c.Recorded)
	} else {
		l.count(cgroup.Write{Path: p.path, Via: cgroup.NRI, Property: cgroup.CRICPUs, Value: p.cpus.String(), Container: e.ID, Reason: "gave way"}, nil)
	}
}
