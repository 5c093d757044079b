package daemon

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestWorkersKeepOrder: jobs of one key run in order, and a stuck one holds up
// nobody else.
func TestWorkersKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := newMailbox()
		w := newWorkers(ctx, box.post)
		w.submit("stuck", func(ctx context.Context) event { <-ctx.Done(); return nil })
		for i := range 10 {
			w.submit("a", func(context.Context) event { time.Sleep(time.Second); return i }) //nolint:forbidigo // fake time
		}
		synctest.Wait()
		time.Sleep(20 * time.Second) //nolint:forbidigo // fake time
		synctest.Wait()
		var got []int
		for _, e := range box.take() {
			got = append(got, e.(int)) //nolint:errcheck,forcetypeassert // only ints are posted
		}
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
			t.Errorf("results = %v; want %v", got, want)
		}
		cancel()
		w.wait()
	})
}
