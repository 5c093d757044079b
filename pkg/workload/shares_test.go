package workload_test

import (
	"math"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestMilliCPUToShares(t *testing.T) {
	tests := []struct {
		milli int64
		want  uint64
	}{
		{milli: math.MinInt64, want: 2},
		{milli: -5, want: 2},
		{milli: 0, want: 2},
		{milli: 1, want: 2},
		{milli: 2, want: 2},
		{milli: 3, want: 3},
		{milli: 999, want: 1022},
		{milli: 1000, want: 1024},
		{milli: 255999, want: 262142},
		{milli: 256000, want: 262144},
		{milli: math.MaxInt64, want: 262144},
	}
	for _, tt := range tests {
		if got := workload.MilliCPUToShares(tt.milli); got != tt.want {
			t.Errorf("MilliCPUToShares(%d) = %d; want %d", tt.milli, got, tt.want)
		}
	}
}
