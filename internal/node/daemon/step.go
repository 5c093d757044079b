package daemon

import (
	"context"
	"runtime"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// run drives the loop until ctx ends: it waits for events, notices of the kernel and
// deadlines, and calls step for each. It waits for nothing else.
func (l *Loop) run(ctx context.Context) {
	l.begin()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.schedule.heartbeat.Set(l.publisher.Notify.Pulse(l.schedule.resync.Due))
		if next := l.schedule.next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(next.Sub(l.now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.box.Wake():
		case <-l.notices.Tree.Wake():
			l.takeNotices()
		}
		l.step(l.now(), l.box.Take())
	}
}

// step applies events and then the deadlines that are over at now, and makes the passes that
// follow. Events come first, because an event can end the wait that a deadline bounds.
// Example: the journal is saved, but the loop got no CPU for a second. In the other order
// it would write without waiting for the disk. Step calls the kernel synchronously. Workers
// make slow calls, and later work gets a deadline, so a test can drive the loop with step
// alone.
func (l *Loop) step(now time.Time, events []event) {
	for _, e := range events {
		l.handle(e)
	}
	if due := l.fireDeadlines(now); !due && len(events) == 0 && !l.schedule.isDue() {
		return // the notices came from the daemon's own writes
	}
	l.askKubelet(now)
	l.startRecheck()
	l.runPasses()
	l.publisher.Notify.Alive(l.now())
}

// fireDeadlines acts on the deadlines that are over, and reports whether a pass may be due.
func (l *Loop) fireDeadlines(now time.Time) (due bool) {
	t := &l.schedule
	if t.heartbeat.IsOver(now) {
		l.publisher.Notify.Alive(now)
	}
	if t.resync.IsOver(now) {
		l.resync(now)
		due = true
	}
	if t.recheck.IsOver(now) {
		l.schedule.full, due = true, true
	}
	if t.retry.IsOver(now) {
		l.schedule.full, due = true, true
	}
	if t.delayed.IsOver(now) {
		due = true
	}
	if t.notices.IsOver(now) {
		l.takeNotices()
	}
	t.notices.Set(l.notices.Tree.Watcher().Due())
	if t.journal.IsOver(now) {
		l.schedule.full, due = true, true
		if l.journal.StopWaiting(); !l.journal.Safe() {
			l.log.Error("journal is late; writes go ahead, and restore may not know the values that they replace", "journal", l.JournalFile)
		}
	}
	return due
}

// handle schedules the pass that an event needs, and applies the event.
func (l *Loop) handle(e event) {
	scope, sandbox := l.scopeOf(e), ""
	if of, ok := e.(interface{ sandbox() string }); ok { // an event about a sandbox, or a container
		sandbox = of.sandbox()
	}
	if p := l.inventory.Objects().Pod(sandbox); scope == scopeOne && p != nil && l.cache.Current(p.Pause).Exists {
		l.schedule.addSandbox(sandbox) // the last pass has read its cgroup
	} else {
		l.schedule.add(scope)
	}
	if _, own := e.(ownResult); !own {
		l.planner.Kubelet.Invalidate()
	}
	e.apply(l)
}

// armRetry sets the deadline for work that was not due in the last pass, which began at began.
// Work that became due since then is due at once.
func (l *Loop) armRetry(began time.Time) {
	var next actor.Deadline
	earlier := func(at time.Time) {
		if at.After(began) {
			next.SetEarlier(at)
		}
	}
	earlier(l.journal.NextRetry())
	earlier(l.publisher.Files.Retry())
	if !l.publisher.IsReady() {
		earlier(l.publisher.Files.Due())
	}
	l.planner.Hints.Next(earlier)
	earlier(l.planner.Kubelet.Next())
	l.backoffs.Next(earlier, began)
	l.units.Next(earlier)
	l.refusalLog.NextStop(earlier)
	l.requests.Next(earlier)
	l.resizes.Next(earlier)
	l.partitions.Next(earlier)
	earlier(l.planner.Quiet.Until())
	if !next.Due.IsZero() {
		l.schedule.retry = next
	}
}

// scopeOf returns the scope of the event that is applied next.
func (l *Loop) scopeOf(e event) scope {
	if s, ok := e.(scoped); ok && !l.hasWaiting() {
		return s.scope(l)
	}
	return scopeAll
}

// hasWaiting reports whether a request or a deferred write may depend on the next event.
func (l *Loop) hasWaiting() bool {
	return !l.publisher.IsReady() || !l.journal.Safe() || l.planner.Quiet.FilesWait(l.last.Deferred) || l.requests.IsWaiting() || !l.moves.IsEmpty()
}

// runPasses makes the passes that are due.
func (l *Loop) runPasses() {
	began := l.now()
	l.releaseReplies()
	if !l.schedule.listings.HasListed() || !l.planner.Formula.IsAnswered() || l.CPUManager != nil && !l.planner.Kubelet.IsKnown() {
		l.schedule.done(began, began)
		if !l.last.Planned {
			l.answerEarly()
			l.save(l.now())
		}
		l.publish()
		l.moves.Answer(&l.last, l.planner.Assignments(), l.now())
		return
	}
	if !l.schedule.full && l.partialPass(began) && (l.schedule.answered || l.schedule.canWait(began)) {
		return
	}
	if l.schedule.answered {
		runtime.Gosched() // the goroutine with the reply continues first
	}
	l.pass()
	for l.answerHooks(l.now()) || l.retryMoves() {
		l.pass()
	}
	runtime.Gosched() // the goroutines with an answer continue first
	l.notices.Watch(l.last.Targets)
	l.save(l.now()) // the originals that answers have added
	l.publish()
	l.armRetry(l.last.Began)
	l.moves.Answer(&l.last, l.planner.Assignments(), l.now())
	l.planner.Claims.Answer(&l.last.Plan, l.journal.IsSaved)
	l.schedule.done(began, l.now())
	if free := l.memory.Due(l.now()); free != nil {
		l.workers.Queries.Submit("memory", func(context.Context) event { free(); return nil })
	}
}
