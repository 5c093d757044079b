package actor_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// TestDeadline checks that the earlier of two deadlines stays, and that a deadline is over once.
func TestDeadline(t *testing.T) {
	now := time.Unix(1000, 0)
	var d actor.Deadline
	if d.IsOver(now) {
		t.Error("over without a deadline")
	}
	for _, at := range []time.Time{now.Add(time.Second), now, now.Add(time.Minute), {}} {
		d.SetEarlier(at)
	}
	if !d.Due.Equal(now) {
		t.Errorf("due = %v; want %v", d.Due, now)
	}
	if d.IsOver(now.Add(-time.Nanosecond)) || !d.IsOver(now) || d.IsOver(now) {
		t.Error("want over at its time, once")
	}
	if d.Set(now); !d.Due.Equal(now) {
		t.Errorf("due = %v; want %v", d.Due, now)
	}
	if d.Clear(); !d.Due.IsZero() {
		t.Errorf("due = %v after Clear", d.Due)
	}
}
