package daemon

import "time"

// timers are the deadlines of the loop. A zero deadline is not set.
type timers struct {
	resync  deadline // the next listing
	recheck deadline // the latest start of the reading of all cgroups that a resync asked for
	retry   deadline // the next refused write, question or answer that is due
	journal deadline // the end of the wait for the disk
	pulse   deadline // the next sign of life, where no resync comes before
	full    deadline // the next full pass that no answer waits for
}

// next returns the earliest deadline, or the zero time if none is set.
func (t *timers) next() (next time.Time) {
	for _, d := range [...]deadline{t.resync, t.recheck, t.retry, t.journal, t.pulse, t.full} {
		if !d.due.IsZero() && (next.IsZero() || d.due.Before(next)) {
			next = d.due
		}
	}
	return next
}

// deadline is a point in time at which the loop acts.
type deadline struct{ due time.Time }

// set replaces the deadline.
func (d *deadline) set(at time.Time) { d.due = at }

// clear removes the deadline.
func (d *deadline) clear() { d.due = time.Time{} }

// over reports whether the deadline is set and has passed, and removes it then.
func (d *deadline) over(now time.Time) bool {
	if d.due.IsZero() || now.Before(d.due) {
		return false
	}
	d.clear()
	return true
}

// armPulse sets the deadline at which the loop shows that it is alive, if the resync does
// not come before.
func (l *Loop) armPulse() {
	if at, ok := l.notify.Pulse(l.timers.resync.due); ok {
		l.timers.pulse.set(at)
	} else {
		l.timers.pulse.clear()
	}
}

// armRetry sets the deadline for what was not due in the last pass, which began at began.
// What became due since then is due at once.
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
		l.timers.retry.set(due)
	}
}
