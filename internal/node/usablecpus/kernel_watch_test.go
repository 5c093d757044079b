package usablecpus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// TestWatchCallsAndEnds checks that Watch calls back at its start, and ends with its
// context. Events of the kernel are tested in test/vm.
func TestWatchCallsAndEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	called, ended := make(chan struct{}, 100), make(chan error, 1)
	go func() {
		ended <- usablecpus.Kernel{}.Watch(ctx, func() error {
			called <- struct{}{}
			return nil
		})
	}()
	select {
	case <-called:
	case err := <-ended:
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
			t.Skipf("this machine has no uevents: %v", err)
		}
		t.Fatalf("Watch: %v", err)
	case <-time.After(nodefixture.Timeout):
		t.Fatal("Watch does not call back at its start")
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

// TestWatchReturnsError checks that Watch returns the error of its callback, so that the
// caller can start it again.
func TestWatchReturnsError(t *testing.T) {
	cannot := errors.New("cannot read")
	err := usablecpus.Kernel{}.Watch(t.Context(), func() error { return cannot })
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skipf("this machine has no uevents: %v", err)
	}
	if !errors.Is(err, cannot) {
		t.Errorf("Watch: %v; want %v", err, cannot)
	}
}
