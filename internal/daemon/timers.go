package daemon

import "time"

// timers are the loop's: each is armed by the owner and read in run.
type timers struct {
	resync  *time.Timer // the next complete listing
	retry   *time.Timer // the next refused write that is due
	journal *time.Timer // the end of patience with the disk
	pulse   *time.Timer // the next sign of life
	rest    *time.Timer // the next pass that nobody waits for
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// armRetry wakes the loop when the next thing is due that the last pass, as of its begin,
// came too early for. What has become due since is due at once.
func (l *loop) armRetry(began time.Time) {
	due, armed := l.bench.next(began)
	earlier := func(at time.Time) {
		if at.After(began) && (!armed || at.Before(due)) {
			due, armed = at, true
		}
	}
	earlier(l.status.journalRetry)
	earlier(l.applications.retry)
	if !l.status.ready {
		earlier(l.applications.due())
	}
	l.hints.next(earlier)
	earlier(l.kubelet.retry)
	l.bench.nextContest(earlier, began)
	l.nextAsk(earlier)
	l.nextStop(earlier)
	l.nextHook(earlier)
	l.nextPromise(earlier)
	l.nextResize(earlier)
	l.nextPartition(earlier)
	l.quiet.next(l.settings.config.Quiet, earlier)
	if armed {
		l.timers.retry.Reset(time.Until(due))
	}
}
