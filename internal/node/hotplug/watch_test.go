package hotplug_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/hotplug"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// TestWatchCallsAndEnds: it tells that it listens, and ends with its context. That
// it hears the kernel is shown in test/vm.
func TestWatchCallsAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- hotplug.Watch(ctx, func() error {
			heard <- struct{}{}
			return nil
		})
	}()
	select {
	case <-heard:
	case err := <-ended:
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
			t.Skipf("this machine has no uevents: %v", err)
		}
		t.Fatalf("Watch: %v", err)
	case <-time.After(nodefixture.Timeout):
		t.Fatal("Watch does not say that it listens")
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Watch: %v; want nil after its context has ended", err)
		}
	case <-time.After(nodefixture.Timeout):
		t.Fatal("Watch does not end with its context")
	}
}

// TestWatchReturnsError: who cannot do with the news what it must is told again
// by a new Watch.
func TestWatchReturnsError(t *testing.T) {
	cannot := errors.New("cannot read")
	err := hotplug.Watch(t.Context(), func() error { return cannot })
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skipf("this machine has no uevents: %v", err)
	}
	if !errors.Is(err, cannot) {
		t.Errorf("Watch: %v; want %v", err, cannot)
	}
}
