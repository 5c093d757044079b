package actor

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// stableTime is the minimum duration of a call after which pauses are short again.
const stableTime = time.Minute

// KeepTrying calls watch until ctx ends. It reports each error, and pauses longer each time.
func KeepTrying(ctx context.Context, watch func() error, report func(error)) {
	pause := backoff.NewExponentialBackOff()
	for {
		started := time.Now()
		err := watch()
		if ctx.Err() != nil {
			return
		}
		report(err)
		if time.Since(started) > stableTime {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}
