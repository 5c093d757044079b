package view_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/view"
)

// TestRequestOf checks requests against the shares that the kubelet computes from them,
// rounded down.
func TestRequestOf(t *testing.T) {
	for shares, want := range map[uint64]int64{0: 0, 2: 0, 102: 100, 1024: 1000, 1280: 1250, 262144: 256000, 262145: 256000} {
		if got := view.RequestOf(shares); got != want {
			t.Errorf("requestOf(%d) = %d; want %d", shares, got, want)
		}
	}
}
