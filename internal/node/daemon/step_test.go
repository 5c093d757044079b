package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// lateLoop returns a loop that got no CPU for a second: the disk has saved an original in
// time and the event waits, but the deadline of the save is over.
// Events that are given come before it.
func lateLoop(t *testing.T, before ...event) *Loop {
	t.Helper()
	n := newNode(t)
	now := time.Now()
	o := n.options()
	o.Clock = func() time.Time { return now }
	l, err := newLoop(n.Host(), o)
	if err != nil {
		t.Fatal(err)
	}
	l.workers = actor.WorkerSets[event]{Queries: ignored{}, Updates: ignored{}, Disk: ignored{}}
	l.journal.Originals.Note(undo.Original{Path: "a", File: cgroup.FileCPUs, Value: "0-7"})
	_, upTo, due := l.journal.BeginSave(now)
	if !due {
		t.Fatal("no save of a new original is due")
	}
	l.schedule.journal.Set(now.Add(journalTimeout))
	for _, e := range append(before, saved{upTo: upTo}) {
		l.box.Post(e)
	}
	now = now.Add(time.Second)
	return l
}

// ignored are workers that run no job.
type ignored struct{}

func (ignored) Submit(string, actor.Job[event]) {}

// TestEventsBeforeDeadlines checks that an event that waits ends the wait that a deadline
// bounds: writes must not go ahead without their originals on disk.
func TestEventsBeforeDeadlines(t *testing.T) {
	l := lateLoop(t)
	l.step(l.now(), l.box.Take())
	if err := l.journal.Late(); err != nil || !l.journal.Safe() {
		t.Errorf("late: %v, safe: %t; want a journal in time", err, l.journal.Safe())
	}
}

// TestDeadlineTakesEvents checks that run takes the waiting events whichever of event and
// deadline it notices first.
func TestDeadlineTakesEvents(t *testing.T) {
	for range 30 { // select chooses at random
		ctx, cancel := context.WithCancel(t.Context())
		late := make(chan error, 1)
		l := lateLoop(t, errand(func(l *Loop) { late <- l.journal.Late(); cancel() }))
		l.run(ctx)
		if err := <-late; err != nil {
			t.Fatalf("late: %v; want a journal in time", err)
		}
	}
}
