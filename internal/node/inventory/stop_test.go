package inventory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestDecideStop checks that the first final verdict after the start decides whether a
// refused container is stopped, and only for a container whose creation the daemon has
// seen.
func TestDecideStop(t *testing.T) {
	type verdict struct{ final, refused, want bool }
	for name, c := range map[string]struct {
		unseen   bool // created before the daemon began to watch
		verdicts []verdict
	}{
		"refused":                      {false, []verdict{{true, true, true}}},
		"refused after it had to wait": {false, []verdict{{false, false, false}, {true, true, true}}},
		"stopped once":                 {false, []verdict{{true, true, true}, {true, true, false}}},
		"allowed first":                {false, []verdict{{true, false, false}, {true, true, false}}},
		"not refused meanwhile":        {false, []verdict{{false, true, false}, {true, false, false}, {true, true, false}}},
		"created unseen":               {true, []verdict{{true, true, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.run(cri.Running)
			if !c.unseen {
				w.BeginWatch(w.now.Add(-time.Minute))
			}
			w.list()
			for i, v := range c.verdicts {
				if got := w.Container("c").DecideStop(v.final, v.refused, w.now); got != v.want {
					t.Errorf("verdict %d: stop %t; want %t", i, got, v.want)
				}
				w.list() // reports change nothing
			}
		})
	}
}

// TestNoteStop checks that a stop that fails is repeated after its pause.
func TestNoteStop(t *testing.T) {
	w := newWorld(t)
	w.BeginWatch(w.now.Add(-time.Minute))
	w.run(cri.Running)
	w.list()
	e, retry := w.Container("c"), w.now.Add(time.Second)
	e.DecideStop(true, true, w.now)
	e.NoteStop(errors.New("busy"), retry)
	if at, toStop := e.NextStop(); !toStop || !at.Equal(retry) || e.DecideStop(true, true, w.now) {
		t.Errorf("next stop at %v, %t; want %v and nothing before", at, toStop, retry)
	}
	if !e.DecideStop(true, true, retry) {
		t.Error("no second stop")
	}
	e.NoteStop(nil, retry)
	if _, toStop := e.NextStop(); toStop || e.Container.State != cri.Exited {
		t.Errorf("after the stop: %v, to stop %t", e.Container.State, toStop)
	}
}
