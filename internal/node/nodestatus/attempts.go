package nodestatus

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// attempts is one kind of requests. Its pauses do not delay requests of other kinds.
type attempts struct {
	name  string // for the log
	retry *backoff.ExponentialBackOff
	due   time.Time // the next request is not earlier
	err   error     // of the last request
}

func newAttempts(what string, l Limits) attempts {
	return attempts{name: what, retry: newBackoff(l.Pause)}
}

// attempt sends a request unless it is too early. It returns the time of the next call, or zero.
func (r *Runner) attempt(ctx context.Context, a *attempts, request func(context.Context) (time.Time, error)) time.Time {
	if r.Now().Before(a.due) {
		return a.due
	}
	next, err := request(ctx)
	if err == nil {
		if a.err != nil {
			r.Log.Info("node is published again", "node", r.Name, "what", a.name)
		}
		a.err = nil
		a.retry.Reset()
		return next
	}
	if ctx.Err() == nil && (a.err == nil || a.err.Error() != err.Error()) {
		r.Log.Warn("cannot publish node", "node", r.Name, "what", a.name, "error", err)
	}
	a.err = err
	pause := a.retry.NextBackOff()
	if isStatus(err, 409) { // a conflict is not a sign of load
		pause /= 10
	}
	a.due = r.Now().Add(pause + retryAfter(err))
	return a.due
}

// earlier returns the earlier of two times. Zero means no time.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// maxPause bounds the pause between attempts, maxRetryAfter the time that an answer adds.
const (
	maxPause      = time.Minute
	maxRetryAfter = 30 * time.Second
)

// newBackoff returns random pauses between zero and a maximum, which doubles. With a smaller random
// part, nodes that lost an API server together would return together.
func newBackoff(first time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first/2, maxPause/2
	b.RandomizationFactor, b.Multiplier = 1, 2 // from zero to twice the interval
	b.Reset()
	return b
}

// retryAfter is added to the random pause, because all nodes get the same value.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.retryAfter
	}
	return 0
}

// sleep waits for d. It reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
