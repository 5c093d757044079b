package control_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/control"
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

func (*fake) Explain(name string) (*inspect.Explanation, error) {
	if name == "a/b" {
		return &inspect.Explanation{Version: inspect.Version, Asked: name}, nil
	}
	return nil, &inspect.NameError{Text: "nothing is called " + name}
}

// TestExplain: a name that names nothing is the asker's mistake, and he is told.
func TestExplain(t *testing.T) {
	c := dialFake(t, newFake())
	if e, err := c.Explain(t.Context(), "a/b"); err != nil || e.Asked != "a/b" || e.Version != inspect.Version {
		t.Errorf("explain a/b = %+v, %v", e, err)
	}
	for name, want := range map[string]string{"c d&e": "nothing is called c d&e", "": "name a pod"} {
		if _, err := c.Explain(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("explain %q: %v; want %q", name, err, want)
		}
	}
	if _, err := c.Explain(t.Context(), strings.Repeat("x", 1000)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("explain of 1000 letters: %v; want its limit", err)
	}
}

func TestEventsAreWaitedFor(t *testing.T) {
	f := newFake()
	f.add(history.Event{Kind: history.Started})
	c := dialFake(t, f)
	got, err := c.Events(t.Context(), history.Query{}, control.Wait{})
	if err != nil || len(got.Events) != 1 || got.Last != 1 || !got.Started.Equal(f.Started()) {
		t.Fatalf("events = %+v, %v; want the one, of the daemon that started", got, err)
	}
	type answer struct {
		*inspect.Events
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		e, err := c.Events(t.Context(), history.Query{After: got.Last, About: "a/b"}, control.Wait{For: time.Minute})
		answers <- answer{e, err}
	}()
	f.add(history.Event{Kind: history.Placed, Pod: "other/pod"}) // is not asked for
	f.add(history.Event{Kind: history.Placed, Pod: "a/b"})
	if a := <-answers; a.err != nil || len(a.Events.Events) != 1 || a.Events.Events[0].Seq != 3 || a.Last != 3 {
		t.Errorf("answer = %+v; want event 3 alone", a)
	}
	// Who has seen more than there is has asked the daemon before.
	if e, err := c.Events(t.Context(), history.Query{After: 1000}, control.Wait{For: time.Minute}); err != nil || e.Last != 3 {
		t.Errorf("a follower of another daemon is told %+v, %v; want at once that 3 is the last", e, err)
	}
	// So has who names another one.
	another := control.Wait{For: time.Minute, Daemon: time.Unix(1, 0)}
	if e, err := c.Events(t.Context(), history.Query{After: 3}, another); err != nil || len(e.Events) > 0 {
		t.Errorf("a follower of another daemon is told %+v, %v; want at once that there is nothing", e, err)
	}
	s, err := c.Status(t.Context(), 2, control.Wait{For: time.Minute})
	if err != nil || s.Sequence != 3 {
		t.Errorf("status after 2 = %+v, %v; want 3 at once", s, err)
	}
}

func dialFake(t *testing.T, f *fake) *control.Client {
	t.Helper()
	c, _, _ := serveInside(t, nil, time.Minute, f)
	return c
}

// TestConnectionsAreFew: who keeps connections open keeps others out only until one ends.
func TestConnectionsAreFew(t *testing.T) {
	_, socket, _ := serve(t, nil, time.Minute)
	held := make([]net.Conn, 32)
	for i := range held {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		held[i] = conn
	}
	// Each is accepted: it is answered, and kept.
	for _, conn := range held {
		if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("answer = %+v, %v; want 200", answer, err)
		}
	}
	c := control.NewClient(socket)
	t.Cleanup(c.Close)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Events(short, history.Query{}, control.Wait{}); err == nil {
		t.Error("a 33rd connection is served beside 32 others")
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	// The one that was given up above is still first in the queue, and ends by itself.
	if _, err := c.Events(t.Context(), history.Query{}, control.Wait{}); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestWaitingEndsWithTheDaemon: who waits for something to happen does not hold up its end,
// and is told of it.
func TestWaitingEndsWithTheDaemon(t *testing.T) {
	f := newFake()
	asked := make(chan struct{})
	c, _, stop := serveInside(t, nil, time.Minute, &told{fake: f, asked: asked})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Events(context.WithoutCancel(t.Context()), history.Query{}, control.Wait{For: time.Minute})
		failed <- err
	}()
	<-asked
	stop()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the daemon ends") {
		t.Errorf("events = %v; want that the daemon ends", err)
	}
}

// told closes asked when its history is looked at.
type told struct {
	*fake
	once  sync.Once
	asked chan struct{}
}

func (f *told) History() *history.Snapshot {
	f.once.Do(func() { close(f.asked) })
	return f.fake.History()
}

func TestHeadersAreShort(t *testing.T) {
	_, socket, _ := serve(t, nil, time.Minute)
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n") // may be cut off
	if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil && answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("answer = %s; want 431", answer.Status)
	}
}
