package nodestatus_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// TestBackoffSpread checks that the pauses of many nodes are spread evenly, at the first
// failure and later.
func TestBackoffSpread(t *testing.T) {
	const nodes, first = 20000, 10 * time.Second
	seconds := make([]int, 61)
	sixth := make([]int, 61)
	for range nodes {
		p := nodestatus.NewBackoff(first)
		pause := p.NextBackOff()
		if pause < 0 || pause > first {
			t.Fatalf("first pause %s; want at most %s", pause, first)
		}
		seconds[pause/time.Second]++
		for range 5 {
			pause = p.NextBackOff()
		}
		if pause < 0 || pause > nodestatus.MaxPause {
			t.Fatalf("sixth pause %s; want at most %s", pause, nodestatus.MaxPause)
		}
		sixth[pause/time.Second]++
	}
	// Each second expects an equal share. 1.3 times that is 13 standard deviations away for
	// first pauses, and 6 for sixth pauses.
	for i := range 61 {
		if seconds[i] > nodes/10*13/10 {
			t.Errorf("%d of %d first pauses end in second %d", seconds[i], nodes, i)
		}
		if sixth[i] > nodes/60*13/10 {
			t.Errorf("%d of %d sixth pauses end in second %d", sixth[i], nodes, i)
		}
	}
}

// TestRunnerRetryAfter checks that refused requests wait for Retry-After, and that other
// requests do not.
func TestRunnerRetryAfter(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.refuse["PATCH status"], f.retryAfter = 429, "30" })
	r := run(t, f, quickLimits()) // its own pauses are short
	s := pooled()
	for _, name := range []string{"a", "b", "c"} {
		s.Problems = append(s.Problems, nodestatus.Problem{UID: name, Namespace: "ns", Pod: name, Code: "Refused", Text: "why"})
	}
	r.Show(s)
	f.wait("a refusal", func() bool { return f.calls["PATCH status"] == 1 })
	f.do(func() { clear(f.refuse) })
	r.Show(s)
	f.wait("events", func() bool { return len(f.events) == 3 })
	f.do(func() {
		if n := f.calls["PATCH status"]; n != 1 {
			t.Errorf("%d patches within the 30 seconds of Retry-After; want 1", n)
		}
	})
}

// TestRunnerWatchEndedEarly checks that a watch that the server ends early restarts after a
// pause: an API server that stops ends the watches of all nodes at the same time.
func TestRunnerWatchEndedEarly(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.cut = true })
	l := quickLimits()
	l.Pause = 10000 * time.Hour
	r := run(t, f, l)
	r.Show(pooled())
	f.wait("resources", f.pooled)
	f.wait("the end of the watch", func() bool { return f.watchers == 0 && f.calls["WATCH node"] == 1 })
	f.do(func() { f.cut = false })
	more := pooled()
	more.Pools[0].Milli = 5000
	r.Show(more)
	f.wait("patches", func() bool { return f.has(shared, "5000") })
	f.do(func() {
		if n := f.calls["WATCH node"]; n > 1 {
			t.Errorf("%d watches; the pause is up to 10000 hours", n)
		}
	})
}
