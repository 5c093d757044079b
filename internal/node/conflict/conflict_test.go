package conflict_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/conflict"
)

// TestPauses checks that repairs pause after several external writes in the window, and that each
// pause is twice as long as the last. A conflict is over after a window without writes.
func TestPauses(t *testing.T) {
	limits := conflict.Limits{Repairs: 2, Window: time.Minute}
	var w conflict.Writes
	now := time.Unix(1000, 0)
	if !w.Last().IsZero() || !w.Until().IsZero() || !w.IsOver(limits, now) {
		t.Error("the zero value has a conflict")
	}
	for i, want := range []bool{false, false, true} {
		now = now.Add(time.Second)
		if got := w.Note(limits, now); got != want {
			t.Errorf("pause after write %d: %t; want %t", i+1, got, want)
		}
	}
	if got := w.Until().Sub(now); got != conflict.FirstPause {
		t.Errorf("first pause of %v; want %v", got, conflict.FirstPause)
	}
	for want := 2 * conflict.FirstPause; want < 2*conflict.LastPause; want *= 2 {
		now = w.Until()
		if !w.Note(limits, now) || w.Until().Sub(now) != min(want, conflict.LastPause) {
			t.Errorf("pause of %v after another write; want %v", w.Until().Sub(now), min(want, conflict.LastPause))
		}
	}
	if now = w.Until(); w.IsOver(limits, now) {
		t.Error("the conflict is over when the pause ends")
	}
	if now = now.Add(limits.Window + 1); !w.IsOver(limits, now) {
		t.Error("the conflict is not over after a window without writes")
	}
}

// TestRareWrites checks that repairs do not pause for writes that are further apart than the window.
func TestRareWrites(t *testing.T) {
	limits := conflict.Limits{Repairs: 2, Window: time.Minute}
	var w conflict.Writes
	for i := range 10 {
		if w.Note(limits, time.Unix(1000, 0).Add(time.Duration(i)*limits.Window)) {
			t.Errorf("repairs pause after write %d", i+1)
		}
	}
}
