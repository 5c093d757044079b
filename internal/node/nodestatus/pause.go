package nodestatus

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxPause is the maximum pause between two attempts. maxRetryAfter is the maximum time that
// an answer adds.
const (
	maxPause      = time.Minute
	maxRetryAfter = 30 * time.Second
)

// newBackoff returns random pauses between failing requests. Each is between zero and a
// maximum, which doubles. A smaller random part would let the nodes that lost an API server
// together return together.
func newBackoff(first time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first/2, maxPause/2
	b.RandomizationFactor, b.Multiplier = 1, 2 // from zero to twice the interval
	b.Reset()
	return b
}

// retryAfter returns the wait that an answer requests. It is added to the random pause,
// because all nodes get the same value.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.retryAfter
	}
	return 0
}

// sleep waits for d. It reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
