package cgroup_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func TestWeights(t *testing.T) {
	tests := []struct{ shares, linear, quadratic uint64 }{
		{shares: 0, linear: 0, quadratic: 0},
		{shares: 1, linear: 1, quadratic: 1},
		{shares: 2, linear: 1, quadratic: 1},
		{shares: 3, linear: 1, quadratic: 2},
		{shares: 102, linear: 4, quadratic: 17},
		{shares: 512, linear: 20, quadratic: 59},
		{shares: 1024, linear: 39, quadratic: 100},
		{shares: 10240, linear: 391, quadratic: 639},
		{shares: 262143, linear: 9999, quadratic: 10000},
		{shares: 262144, linear: 10000, quadratic: 10000},
		{shares: math.MaxUint64, linear: 10000, quadratic: 10000},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.shares), func(t *testing.T) {
			if got := cgroup.WeightLinear(tt.shares); got != tt.linear {
				t.Errorf("WeightLinear(%d) = %d; want %d", tt.shares, got, tt.linear)
			}
			if got := cgroup.WeightQuadratic(tt.shares); got != tt.quadratic {
				t.Errorf("WeightQuadratic(%d) = %d; want %d", tt.shares, got, tt.quadratic)
			}
		})
	}
}

// TestSharesFromWeight also bounds the loss when a weight is read back as shares and
// set again: both conversions round down.
func TestSharesFromWeight(t *testing.T) {
	for _, tt := range []struct{ weight, shares uint64 }{{0, 0}, {1, 2}, {2, 28}, {39, 998}, {100, 2597}, {10000, 262144}, {10001, 262144}} {
		if got := cgroup.SharesFromWeight(tt.weight); got != tt.shares {
			t.Errorf("SharesFromWeight(%d) = %d; want %d", tt.weight, got, tt.shares)
		}
	}
	for weight := uint64(1); weight <= 10000; weight++ {
		back := cgroup.WeightLinear(cgroup.SharesFromWeight(weight))
		if back > weight || weight-back > 1 {
			t.Fatalf("WeightLinear(SharesFromWeight(%d)) = %d; want %d or one less", weight, back, weight)
		}
	}
}

func TestMilliCPUToQuota(t *testing.T) {
	tests := []struct{ milli, period, want int64 }{
		{milli: 0, period: 100000, want: 0},
		{milli: -1, period: 100000, want: 0},
		{milli: 1, period: 100000, want: 1000},
		{milli: 10, period: 100000, want: 1000},
		{milli: 11, period: 100000, want: 1100},
		{milli: 2500, period: 100000, want: 250000},
		{milli: 500, period: 0, want: 1000},
		{milli: 500, period: 5000, want: 2500},
		{milli: math.MaxInt64, period: 100000, want: math.MaxInt64 / 1000},
	}
	for _, tt := range tests {
		if got := cgroup.MilliCPUToQuota(tt.milli, tt.period); got != tt.want {
			t.Errorf("MilliCPUToQuota(%d, %d) = %d; want %d", tt.milli, tt.period, got, tt.want)
		}
	}
}
