package nodestatus

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// attempts are requests of one kind. After a failure they have a pause of their own:
// where events cannot be written, or a taint not be removed, the resources are to be
// right all the same, and in time.
type attempts struct {
	what  string // for the log
	retry *backoff.ExponentialBackOff
	due   time.Time // none before
	err   error     // of the last one
}

func newAttempts(what string, l Limits) attempts {
	return attempts{what: what, retry: newPause(l.Pause)}
}

// attempt makes requests unless it is too early. The time is when it is to be called
// again; zero stands for not before something happens.
func (r *Runner) attempt(ctx context.Context, a *attempts, request func(context.Context) (time.Time, error)) time.Time {
	if r.Now().Before(a.due) {
		return a.due
	}
	next, err := request(ctx)
	if err == nil {
		if a.err != nil {
			r.Log.Info("node is shown as it is again", "node", r.Name, "what", a.what)
		}
		a.err = nil
		a.retry.Reset()
		return next
	}
	if ctx.Err() == nil && (a.err == nil || a.err.Error() != err.Error()) {
		r.Log.Warn("node is not shown as it is", "node", r.Name, "what", a.what, "error", err)
	}
	a.err = err
	pause := a.retry.NextBackOff()
	if isStatus(err, 409) { // nobody has too much to do
		pause /= 10
	}
	a.due = r.Now().Add(pause + retryAfter(err))
	return a.due
}

// sooner is the earlier of two times, of which zero is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
