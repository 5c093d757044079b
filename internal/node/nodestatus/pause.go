package nodestatus

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// longestPause is how late an API server that is back is noticed, longestAsked how much
// later where it asks for that.
const (
	longestPause = time.Minute
	longestAsked = 30 * time.Second
)

// newPause is the pauses between requests that fail: each anything from nothing to a
// bound, which doubles. Pauses that were only a little random would let the nodes that
// have lost an API server together come back to it together.
func newPause(first time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = first/2, longestPause/2
	b.RandomizationFactor, b.Multiplier = 1, 2 // from nothing to twice the interval
	b.Reset()
	return b
}

// retryAfter is how long the answer says to wait. All nodes get the same, so it comes
// on top of the pause.
func retryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.retryAfter
	}
	return 0
}

// sleep waits, and says whether ctx has not ended.
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
