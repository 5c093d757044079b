package tsc_test

import (
	"runtime"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/tsc"
)

// TestMHz checks that the rate is plausible. TestNode of test/vm compares it with the rate
// that a guest's kernel uses.
func TestMHz(t *testing.T) {
	got := tsc.MHz()
	if runtime.GOARCH != "amd64" {
		if got != 0 {
			t.Errorf("rate is %d MHz on %s; want 0", got, runtime.GOARCH)
		}
		return
	}
	if got < 500 || got > 10_000 {
		t.Errorf("rate is %d MHz; want 500 to 10,000", got)
	}
}
