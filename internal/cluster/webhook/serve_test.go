package webhook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestReadinessIsCheckedOnceASecond checks that requests at the same time and within a second share
// a check, and that a client that leaves does not end it.
func TestReadinessIsCheckedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r recent
		checks, begun, end, failure := 0, make(chan struct{}), make(chan struct{}), errors.New("no handshake")
		check := func() error {
			checks++
			if checks == 1 {
				close(begun)
				<-end
				return nil
			}
			return failure
		}
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { left <- r.get(gone, check) }()
		<-begun
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a client that leaves: %v", err)
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := r.get(t.Context(), check); err != nil {
					t.Errorf("a request during the check: %v", err)
				}
			})
		}
		synctest.Wait()
		close(end)
		all.Wait()
		time.Sleep(time.Second - 1) // of the test's clock
		if err := r.get(t.Context(), check); err != nil || checks != 1 {
			t.Errorf("within a second: %v after %d checks; want 1", err, checks)
		}
		time.Sleep(time.Nanosecond)
		for range 2 {
			if err := r.get(t.Context(), check); !errors.Is(err, failure) || checks != 2 {
				t.Errorf("after a second: %v after %d checks; want %v after 2", err, checks, failure)
			}
		}
	})
}
