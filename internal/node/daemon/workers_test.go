package daemon

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// TestWorkersKeepOrder: jobs of one key run in order, and a stuck one holds up
// nobody else.
func TestWorkersKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := actor.NewMailbox()
		w := actor.NewWorkers(ctx, box.Post)
		w.Submit("stuck", func(ctx context.Context) actor.Event { <-ctx.Done(); return nil })
		for i := range 10 {
			w.Submit("a", func(context.Context) actor.Event { time.Sleep(time.Second); return i }) //nolint:forbidigo // fake time
		}
		synctest.Wait()
		time.Sleep(20 * time.Second) //nolint:forbidigo // fake time
		synctest.Wait()
		var got []int
		for _, e := range box.Take() {
			got = append(got, e.(int)) //nolint:errcheck,forcetypeassert // only ints are posted
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
			t.Errorf("results = %v; want %v", got, want)
		}
		cancel()
		w.Wait()
	})
}
