package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
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

// scope: a record with the CPUs of its cgroup affects no other container. If the CPUs have changed since, the
// next pass updates the record again.
func (e written) scope(l *Loop) scope {
	if e.err != nil || e.skipped {
		return scopeAll
	}
	if cpus, ok := kernelstate.PersistedCPUs(e.write); ok && !cpus.Equal(l.cache.Current(e.write.Path).CPUs) {
		return scopeOne
	}
	return scopeAnswer
}

func (e written) apply(l *Loop) {
	now := l.now()
	if l.inventory.Objects().IsAwaited(cgroup.Target{Container: e.write.Container}) {
		e.unit = cgroup.UnitState{} // of a scope that does not exist yet
	}
	if _, ok := kernelstate.PersistedCPUs(e.write); ok {
		l.publisher.Exposures.NotePersisted(e.write.Path)
	}
	l.cache.NoteFinished(e.write, e.unit, e.err)
	if e.skipped {
		return
	}
	l.publisher.Count(e.write, e.err)
	switch {
	case e.err == nil:
		l.backoffs.Succeed(e.write, now)
		if c := l.inventory.Objects().ContainerAt(e.write.Path); c != nil {
			l.inventory.NotePersisted(c)
		}
		if e.write.Via == cgroup.CRI {
			l.requests.NoteRecorded(e.write.Container)
			if c := l.inventory.Objects().Container(e.write.Container); c != nil && c.Container.State == cri.Created {
				c.Exposure().FoundBy(telemetry.WaySpec)
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

// settleUpdates reads the results of the updates that are due, or of all updates in a reply.
func (l *Loop) settleUpdates(all bool, now time.Time) {
	for id, path := range l.requests.DueUpdates(all, now) {
		// The queue of the cgroup's slow writes, so that later writes follow the answer.
		l.workers.Updates.Submit(string(path), func(ctx context.Context) event {
			return updateSettled{lookup.FetchContainer(ctx, &l.Host, id, 0)}
		})
	}
}

// updateSettled is the runtime's record of a container with an update in a reply.
type updateSettled struct{ lookup.ContainerStatus }

func (e updateSettled) apply(l *Loop) {
	w, open := l.requests.EndUpdate(e.ID)
	if !open {
		return
	}
	containerFetched(e).apply(l)
	if l.requests.CheckUpdate(w) {
		l.publisher.Count(w, nil)
	}
}

// releaseReplies sends the replies that no longer wait for the journal. For the others it saves the journal.
func (l *Loop) releaseReplies() {
	l.planner.Claims.Answer(&l.last.Plan, l.journal.IsSaved)
	l.journal.WriteRecent(l.RecentDir)
	for _, id := range l.requests.Release(l.now()) {
		l.fetchContainer(id) // the runtime may have created it without a reply
	}
	if held := l.requests.HeldUntil(); !held.IsZero() {
		l.save(l.now())
		l.schedule.journal.SetEarlier(held)
	}
}

// save keeps changes of the journal in memory, and hands the journal to a worker.
func (l *Loop) save(now time.Time) {
	if l.Observes {
		return
	}
	l.journal.WriteRecent(l.RecentDir)
	d, upTo, due := l.journal.BeginSave(now)
	if !due {
		return
	}
	if l.schedule.journal.Due.IsZero() {
		l.schedule.journal.Set(l.now().Add(journalTimeout))
	}
	l.workers.Disk.Submit("journal", func(context.Context) event {
		return saved{upTo: upTo, err: undo.File{Name: l.JournalFile, RunDir: l.RunDir}.Save(d)}
	})
}

// saved is the result of writing the journal up to change number upTo.
type saved struct {
	upTo int
	err  error
}

// scope: a journal on disk that no write waits for needs no pass, unless newer changes follow.
func (e saved) scope(l *Loop) scope {
	if e.err == nil && l.journal.Late() == nil && l.journal.Newest() == e.upTo {
		return scopeNone
	}
	return scopeAnswer
}

func (e saved) apply(l *Loop) {
	if e.err != nil {
		l.log.Error("journal not written; the problem JournalNotWritten states the effect", "journal", l.JournalFile, "error", e.err)
	}
	l.journal.EndSave(e.upTo, e.err, l.now())
	l.schedule.journal.Clear() // the disk has answered; the save of newer changes sets it again
}

func (saved) ownResult() {}
