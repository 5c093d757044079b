package control_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// fake is a daemon whose test adds events.
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

func (f *fake) Claims() *inspect.Claims {
	return &inspect.Claims{Version: inspect.Version, Sequence: f.History().Last(), Ready: true}
}

func (*fake) Explain(name string) (*inspect.Explanation, error) {
	if name == "a/b" {
		return &inspect.Explanation{Version: inspect.Version, Asked: name}, nil
	}
	return nil, &inspect.NameError{Text: "nothing is called " + name}
}

// TestExplain checks that an unknown, empty or long name is an error.
func TestExplain(t *testing.T) {
	c := dialFake(t, newFake())
	if e, err := c.Explain(t.Context(), "a/b"); err != nil || e.Asked != "a/b" || e.Version != inspect.Version {
		t.Errorf("explain a/b = %+v, %v", e, err)
	}
	for name, want := range map[string]string{"c d&e": "nothing is called c d&e", "": "name a pod"} {
		_, err := c.Explain(t.Context(), name)
		if _, unknown := errors.AsType[*inspect.NameError](err); !unknown || !strings.Contains(err.Error(), want) {
			t.Errorf("explain %q: %v; want a NameError with %q", name, err, want)
		}
	}
	if _, err := c.Explain(t.Context(), strings.Repeat("x", 1000)); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("explain of 1000 letters: %v; want its limit", err)
	}
}

func TestWaitForEvents(t *testing.T) {
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
	// A number above the last event comes from an earlier daemon.
	if e, err := c.Events(t.Context(), history.Query{After: 1000}, control.Wait{For: time.Minute}); err != nil || e.Last != 3 {
		t.Errorf("events after 1000 = %+v, %v; want an immediate answer with 3 as the last", e, err)
	}
	another := control.Wait{For: time.Minute, Daemon: time.Unix(1, 0)}
	if e, err := c.Events(t.Context(), history.Query{After: 3}, another); err != nil || len(e.Events) > 0 {
		t.Errorf("events of another daemon = %+v, %v; want an immediate answer without events", e, err)
	}
	s, err := c.Status(t.Context(), 2, control.Wait{For: time.Minute})
	if err != nil || s.Sequence != 3 {
		t.Errorf("status after 2 = %+v, %v; want 3 at once", s, err)
	}
}

func dialFake(t *testing.T, f *fake) *control.Client {
	t.Helper()
	c, _, _ := serveAnswers(t, nil, time.Minute, f)
	return c
}

// TestConnectionLimit checks that the 33rd connection waits until one of the others ends.
func TestConnectionLimit(t *testing.T) {
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
	// An answer shows that the server has accepted the connection.
	for _, conn := range held {
		if _, err := io.WriteString(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("answer = %+v, %v; want 200", answer, err)
		}
	}
	c := control.NewClient(socket)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Events(short, history.Query{}, control.Wait{}); err == nil {
		t.Error("the server answers on a 33rd connection")
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	// The canceled connection is still first in the queue. The server accepts it and finds
	// it closed.
	if _, err := c.Events(t.Context(), history.Query{}, control.Wait{}); err != nil {
		t.Errorf("events after one connection has ended: %v", err)
	}
}

// TestStopEndsWaiting checks that a waiting client gets an error when the daemon stops, and
// does not delay it.
func TestStopEndsWaiting(t *testing.T) {
	f := newFake()
	asked := make(chan struct{})
	c, _, stop := serveAnswers(t, nil, time.Minute, &signalingFake{fake: f, asked: asked})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Events(context.WithoutCancel(t.Context()), history.Query{}, control.Wait{For: time.Minute})
		failed <- err
	}()
	<-asked
	stop()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "the daemon is stopping") {
		t.Errorf("events = %v; want an error that the daemon is stopping", err)
	}
}

// signalingFake closes asked at the first call of History.
type signalingFake struct {
	*fake
	once  sync.Once
	asked chan struct{}
}

func (f *signalingFake) History() *history.Snapshot {
	f.once.Do(func() { close(f.asked) })
	return f.fake.History()
}

func TestHeaderLimit(t *testing.T) {
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
