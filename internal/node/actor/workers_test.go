package actor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// TestWorkersKeepOrder checks that jobs of one key run in order, that a job that hangs
// delays no other key, and that no job begins after the end of the context.
func TestWorkersKeepOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := actor.NewMailbox[int]()
		sets, wait := actor.NewWorkerSets(ctx, box.Post)
		sets.Queries.Submit("hangs", func(ctx context.Context) int { <-ctx.Done(); return 0 })
		for i := range 10 {
			sets.Queries.Submit("a", func(context.Context) int { time.Sleep(time.Second); return i + 1 }) //nolint:forbidigo // fake time
		}
		time.Sleep(20 * time.Second) //nolint:forbidigo // fake time
		synctest.Wait()
		if got, want := box.Take(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; !slices.Equal(got, want) {
			t.Errorf("results = %v; want %v", got, want)
		}
		cancel()
		wait()
		sets.Queries.Submit("a", func(context.Context) int { return 11 })
		synctest.Wait()
		if got := box.Take(); got != nil {
			t.Errorf("after the end: %v; want no result", got)
		}
	})
}

// TestWorkersAreBounded checks how many jobs of one set run at once, and that jobs of
// another set run all the same.
func TestWorkersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		box := actor.NewMailbox[string]()
		sets, wait := actor.NewWorkerSets(ctx, box.Post)
		running := make(chan struct{}, 100)
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
			sets.Updates.Submit(key, func(ctx context.Context) string { running <- struct{}{}; <-ctx.Done(); return "" })
		}
		sets.Disk.Submit("a", func(context.Context) string { return "written" })
		synctest.Wait()
		if len(running) != 8 {
			t.Errorf("%d jobs run at once; want 8", len(running))
		}
		if got := box.Take(); !slices.Equal(got, []string{"written"}) {
			t.Errorf("results = %q; want that of the other set", got)
		}
		cancel()
		wait()
	})
}

// TestWaitIsBounded checks that a job that does not end delays the end by a limited time.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		sets, wait := actor.NewWorkerSets(ctx, func(int) {})
		stuck := make(chan struct{})
		sets.Disk.Submit("stuck", func(context.Context) int { <-stuck; return 0 })
		synctest.Wait()
		cancel()
		began := time.Now()
		wait()
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("waited %s; want 5s", took)
		}
		close(stuck)
	})
}

// TestMailbox checks that events keep their order and that Wake holds a token for them.
func TestMailbox(t *testing.T) {
	box := actor.NewMailbox[int]()
	box.Post(1)
	box.Post(2)
	<-box.Wake()
	box.Post(3)
	if got := box.Take(); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("Take = %v; want %v", got, []int{1, 2, 3})
	}
	<-box.Wake() // the token of the third event
	if got := box.Take(); got != nil {
		t.Errorf("second Take = %v; want none", got)
	}
}
