package nodestatus_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

// TestPausesSpread: nodes that have lost an API server in the same moment ask for it
// again one after the other, and go on doing so while it is away.
func TestPausesSpread(t *testing.T) {
	const nodes, first = 20000, 10 * time.Second
	seconds := make([]int, 61)
	sixth := make([]int, 61)
	for range nodes {
		p := nodestatus.NewPause(first)
		pause := p.NextBackOff()
		if pause < 0 || pause > first {
			t.Fatalf("first pause %s; want at most %s", pause, first)
		}
		seconds[pause/time.Second]++
		for range 5 {
			pause = p.NextBackOff()
		}
		if pause < 0 || pause > nodestatus.LongestPause {
			t.Fatalf("sixth pause %s; want at most %s", pause, nodestatus.LongestPause)
		}
		sixth[pause/time.Second]++
	}
	// The expectation is an equal part for each second; 1.3 times that is 13 standard
	// deviations away, and 6 for the longer ones.
	for i := range 61 {
		if seconds[i] > nodes/10*13/10 {
			t.Errorf("%d of %d first pauses end in second %d", seconds[i], nodes, i)
		}
		if sixth[i] > nodes/60*13/10 {
			t.Errorf("%d of %d sixth pauses end in second %d", sixth[i], nodes, i)
		}
	}
}

// TestRunnerRetryAfter: an API server that has too much to do is left alone for as long as
// it says, and no longer than that for what it did not refuse.
func TestRunnerRetryAfter(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.refuse["PATCH status"], f.later = 429, "30" })
	r := run(t, f, quick()) // its own pauses are short
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
			t.Errorf("%d patches within the 30 seconds that the API server asked for", n)
		}
	})
}

// TestRunnerWatchEndedEarly: an API server that stops ends the watches of all nodes at
// once, and they are not begun again at once.
func TestRunnerWatchEndedEarly(t *testing.T) {
	f := newFakeAPI(t)
	f.do(func() { f.cut = true })
	l := quick()
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
