package daemon

import "time"

// timers are the loop's: each is armed by the owner and read in run.
type timers struct {
	resync  *time.Timer // the next complete listing
	retry   *time.Timer // the next refused write that is due
	journal *time.Timer // the end of patience with the disk
	pulse   *time.Timer // the next sign of life
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// armRetry wakes the loop when the next refused write is due again.
func (l *loop) armRetry(now time.Time) {
	due, armed := l.bench.next(now)
	earlier := func(at time.Time) {
		if at.After(now) && (!armed || at.Before(due)) {
			due, armed = at, true
		}
	}
	earlier(l.status.journalRetry)
	earlier(l.applications.retry)
	l.hints.next(earlier)
	l.bench.nextContest(earlier, now)
	l.nextAsk(earlier)
	l.nextStop(earlier)
	l.nextHook(earlier)
	l.nextPromise(earlier)
	l.nextResize(earlier)
	l.nextPartition(earlier)
	if armed {
		l.timers.retry.Reset(due.Sub(now))
	}
}
