package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// run drives the loop until ctx ends: it waits for events, notices of the kernel and
// deadlines, and calls step for each. It waits for nothing else.
func (l *Loop) run(ctx context.Context) {
	l.list()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		l.armPulse()
		if next := l.timers.next(); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(next.Sub(l.now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			l.step(l.now(), nil)
		case <-l.box.Wake():
			l.step(l.now(), l.box.Take())
		case <-l.watch.wake:
			l.takeNotices()
			l.step(l.now(), nil)
		}
	}
}

// step applies events and what is due at now, and makes the passes that follow. It calls
// the kernel synchronously. Slow calls leave as jobs of the workers, and later work as
// deadlines of timers, so a test can drive the loop with step alone.
func (l *Loop) step(now time.Time, events []event) {
	if due := l.ring(now); !due && len(events) == 0 && !l.schedule.asked() {
		return // the notices came from the daemon's own writes
	}
	for _, e := range events {
		l.handle(e)
	}
	l.askKubelet(now)
	l.recheckDue()
	l.work()
	l.notify.Alive(l.now())
}

// ring acts on the deadlines that are over, and reports whether a pass may be due.
func (l *Loop) ring(now time.Time) (due bool) {
	t := &l.timers
	if t.pulse.over(now) {
		l.notify.Alive(now)
	}
	if t.resync.over(now) {
		l.resync(now)
		due = true
	}
	if t.recheck.over(now) {
		l.schedule.full, due = true, true
	}
	if t.retry.over(now) {
		l.schedule.full, due = true, true
	}
	if t.full.over(now) {
		due = true
	}
	if t.journal.over(now) {
		l.schedule.full, due = true, true
		l.status.journalLate, l.status.journalErr = true, undo.ErrSlowDisk
		l.log.Error("journal is late; writes go ahead, and what they replace may not be known to restore", "journal", l.JournalFile)
	}
	return due
}

// handle schedules the pass that an event needs, and applies the event.
func (l *Loop) handle(e event) {
	l.schedule.add(l.scopeOf(e))
	if _, own := e.(ownResult); !own {
		l.kubelet.Due = true
	}
	e.apply(l)
}
