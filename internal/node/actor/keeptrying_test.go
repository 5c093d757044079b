package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// TestKeepTrying checks that a watch is repeated after each error, at growing intervals, and
// that the end of ctx is no error.
func TestKeepTrying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		failed := errors.New("no such service")
		var starts []time.Time
		reports := 0
		actor.KeepTrying(ctx, func() error {
			if starts = append(starts, time.Now()); len(starts) == 8 {
				cancel()
			}
			return failed
		}, func(err error) {
			if reports++; !errors.Is(err, failed) {
				t.Errorf("reported %v, want %v", err, failed)
			}
		})
		if reports != 7 {
			t.Errorf("reported %d errors, want 7", reports)
		}
		if first, last := starts[1].Sub(starts[0]), starts[7].Sub(starts[6]); last <= 2*first {
			t.Errorf("pauses of %s at first and %s at last, want growing ones", first, last)
		}
	})
}
