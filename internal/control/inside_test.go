package control_test

import (
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// fake is a daemon that something happens to.
type fake struct {
	mu   sync.Mutex // guards log and last
	log  *history.Log
	last *history.Snapshot
}

func newFake() *fake {
	l := history.New()
	return &fake{log: l, last: l.Snapshot()}
}

func (f *fake) add(e history.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log.Add(e)
	f.last = f.log.Snapshot()
}

func (f *fake) History() *history.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (*fake) Started() time.Time { return time.Unix(1700000000, 0).UTC() }

func (f *fake) Status() *inspect.Status {
	return &inspect.Status{Version: inspect.Version, Sequence: f.History().Last()}
}

func TestEventsAreWaitedFor(t *testing.T) {
	f := newFake()
	f.add(history.Event{Kind: history.Started})
	c := dialFake(t, f)
	got, err := c.Events(t.Context(), history.Query{}, 0)
	if err != nil || len(got.Events) != 1 || got.Last != 1 || !got.Started.Equal(f.Started()) {
		t.Fatalf("events = %+v, %v; want the one, of the daemon that started", got, err)
	}
	type answer struct {
		*inspect.Events
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		e, err := c.Events(t.Context(), history.Query{After: got.Last, About: "a/b"}, time.Minute)
		answers <- answer{e, err}
	}()
	f.add(history.Event{Kind: history.Placed, Pod: "other/pod"}) // is not asked for
	f.add(history.Event{Kind: history.Placed, Pod: "a/b"})
	if a := <-answers; a.err != nil || len(a.Events.Events) != 1 || a.Events.Events[0].Seq != 3 || a.Last != 3 {
		t.Errorf("answer = %+v; want event 3 alone", a)
	}
	// Who has seen more than there is has asked the daemon before.
	if e, err := c.Events(t.Context(), history.Query{After: 1000}, time.Minute); err != nil || e.Last != 3 {
		t.Errorf("a follower of another daemon is told %+v, %v; want at once that 3 is the last", e, err)
	}
	s, err := c.Status(t.Context(), 2, time.Minute)
	if err != nil || s.Sequence != 3 {
		t.Errorf("status after 2 = %+v, %v; want 3 at once", s, err)
	}
}

func dialFake(t *testing.T, f *fake) *control.Client {
	t.Helper()
	c, _, _ := serveInside(t, nil, time.Minute, f)
	return c
}
