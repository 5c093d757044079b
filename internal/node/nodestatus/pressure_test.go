package nodestatus

import (
	"testing"
	"time"
)

// TestPressure follows a pool through sizes and times. A step holds the second, the number of
// CPUs, the expected state and the second of the next update.
func TestPressure(t *testing.T) {
	type at struct{ second, cpus int }
	type is struct {
		on   bool
		next int // 0: no update before the size changes
	}
	for name, steps := range map[string][]struct {
		at
		is
	}{
		"never too small":          {{at{0, 2}, is{}}, {at{100, 3}, is{}}},
		"immediately, and cleared": {{at{0, 1}, is{true, 0}}, {at{1000, 2}, is{true, 1060}}, {at{1059, 2}, is{true, 1060}}, {at{1060, 2}, is{}}},
		"depleted before ClearAfter": {
			{at{0, 0}, is{true, 0}}, {at{10, 4}, is{true, 70}}, {at{69, 1}, is{true, 0}}, {at{70, 4}, is{true, 130}}, {at{130, 4}, is{}},
		},
		"depleted after ClearAfter": {{at{0, 0}, is{true, 0}}, {at{10, 4}, is{true, 70}}, {at{70, 4}, is{}}, {at{71, 1}, is{true, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1_700_000_000, 0)
			var p pressure
			for _, s := range steps {
				var next time.Time
				p, next = p.next(&Depletion{CPUs: s.cpus, Floor: 2, ClearAfter: time.Minute}, begin.Add(time.Duration(s.second)*time.Second))
				got := is{on: p.depleted}
				if !next.IsZero() {
					got.next = int(next.Sub(begin) / time.Second)
				}
				if got != s.is {
					t.Errorf("at second %d with %d CPUs: %+v, want %+v", s.second, s.cpus, got, s.is)
				}
			}
		})
	}
	if p, _ := (pressure{}).next(&Depletion{}, time.Unix(0, 0)); p.depleted {
		t.Error("a pool without CPUs is depleted below a floor of 0")
	}
}
