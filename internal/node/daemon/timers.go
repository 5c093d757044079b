package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// timers are the loop's: each is armed by the owner and read in run.
type timers struct {
	resync  alarm // the next complete listing
	recheck alarm // the end of patience with the list, for the look that goes with it
	retry   alarm // the next refused write that is due
	journal alarm // the end of patience with the disk
	pulse   alarm // the next sign of life, where no resync comes before
	full    alarm // the next pass that nobody waits for
}

// alarm is a timer that knows when it is due, or was.
type alarm struct {
	*time.Timer
	due time.Time
}

func newTimers() timers {
	stopped := func() alarm { return alarm{Timer: actor.StoppedTimer()} }
	return timers{resync: stopped(), recheck: stopped(), retry: stopped(), journal: stopped(), pulse: stopped(), full: stopped()}
}

// Reset is that of the timer.
func (a *alarm) Reset(d time.Duration) {
	a.due = time.Now().Add(d)
	a.Timer.Reset(d)
}

// Stop is that of the timer.
func (a *alarm) Stop() {
	a.due = time.Time{}
	a.Timer.Stop()
}

// armPulse has the owner wake to show that it is alive, if nothing else will in time: at
// rest the resync does.
func (l *Loop) armPulse() {
	if at, ok := l.notify.Pulse(l.timers.resync.due); ok {
		l.timers.pulse.Reset(time.Until(at))
	} else {
		l.timers.pulse.Stop()
	}
}

// armRetry wakes the loop when the next thing is due that the last pass, as of its begin,
// came too early for. What has become due since is due at once.
func (l *Loop) armRetry(began time.Time) {
	due, armed := l.backoffs.Next(began)
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
	l.hints.Next(earlier)
	earlier(l.kubelet.Retry)
	l.backoffs.NextConflict(earlier, began)
	l.nextAsk(earlier)
	l.nextStop(earlier)
	l.nextHook(earlier)
	l.nextUpdate(earlier)
	l.nextResize(earlier)
	l.nextPartition(earlier)
	l.quiet.Next(l.settings.Config.Quiet, earlier)
	if armed {
		l.timers.retry.Reset(time.Until(due))
	}
}
