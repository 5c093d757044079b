package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Inside is what the daemon shows of itself. It is called from several goroutines, and
// makes what it returns of what is published already: the owner never waits for it.
type Inside interface {
	// Started is when the daemon has begun, and tells it from the next one.
	Started() time.Time
	// History is what has happened so far.
	History() *history.Snapshot
	// Status is the state after the last pass.
	Status() *inspect.Status
	// Explain says why what a name names runs where it runs. The error is an
	// [*inspect.NameError] when the name is at fault.
	Explain(name string) (*inspect.Explanation, error)
}

// Limits of questions.
const (
	maxWait   = 30 * time.Second // for something to happen
	maxAbout  = 3*maxName + 2    // bytes of namespace/pod/container
	maxAsking = 4                // questions that are answered at once
)

// inside answers GET /v1/status, /v1/events and /v1/explain.
type inside struct {
	Inside
	slots chan struct{} // a question that is worked on has one
}

func newInside(i Inside) *inside { return &inside{i, make(chan struct{}, maxAsking)} }

// ask runs answer, if not too many are being answered already.
func (s *Server) ask(answer func(r *http.Request, q *question) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuestion(r.URL.Query())
		if err != nil {
			s.answer(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		if err := s.inside.await(r.Context(), q); err != nil {
			// Who asked has gone, or the daemon ends.
			s.answer(w, http.StatusServiceUnavailable, failure{"the daemon ends; ask the next one"})
			return
		}
		select {
		case s.inside.slots <- struct{}{}:
			defer func() { <-s.inside.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			s.answer(w, http.StatusServiceUnavailable, failure{fmt.Sprintf("%d questions are being answered already; try again", maxAsking)})
			return
		}
		v, err := answer(r, q)
		if _, unknown := errors.AsType[*inspect.NameError](err); unknown {
			s.answer(w, http.StatusNotFound, failure{err.Error()})
			return
		}
		if err != nil {
			s.answer(w, http.StatusInternalServerError, failure{err.Error()})
			return
		}
		s.answer(w, http.StatusOK, v)
	}
}

// await waits until something has happened after q.After, if it is to.
func (i *inside) await(ctx context.Context, q *question) error {
	if q.wait == 0 {
		return nil
	}
	timeout := time.NewTimer(q.wait)
	defer timeout.Stop()
	for {
		s := i.History()
		some := history.Query{After: q.After, About: q.About, Kinds: q.Kinds, Limit: 1}
		// Who has asked another daemon is told at once.
		if s.Last() < q.After || len(s.Select(some)) > 0 || !q.daemon.IsZero() && !q.daemon.Equal(i.Started()) {
			return nil
		}
		select {
		case <-s.Changed:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (i *inside) events(_ *http.Request, q *question) (any, error) {
	s := i.History()
	events := append([]history.Event{}, s.Select(q.Query)...)
	return inspect.Events{Version: inspect.Version, Started: i.Started(), Last: s.Last(), Dropped: s.Dropped, Events: events}, nil
}

// explain takes the name from about; the other parameters mean nothing to it.
func (i *inside) explain(_ *http.Request, q *question) (any, error) {
	if q.About == "" {
		return nil, &inspect.NameError{Text: "nobody is asked about; name a pod, a container or a unit (about)"}
	}
	return i.Explain(q.About)
}

func (i *inside) status(*http.Request, *question) (any, error) { return i.Status(), nil }

// question is what a request asks for.
type question struct {
	history.Query
	// wait is how long to wait for an event that is after Query.After; 0 not at all.
	wait time.Duration
	// daemon is the Started of who has answered before; zero for nobody.
	daemon time.Time
}

// Wait is how a question waits for something to happen: for at most For, 30s at most; 0 is
// not at all. It is over at once when another daemon answers than the one of Daemon, the
// Started of an earlier answer.
type Wait struct {
	For    time.Duration
	Daemon time.Time
}

// parseQuestion reads the parameters of a request, strictly.
func parseQuestion(from url.Values) (*question, error) {
	q := &question{}
	for key, values := range from {
		if key == "kind" {
			continue
		}
		if len(values) != 1 {
			return nil, fmt.Errorf("%s is given %d times; give it once", key, len(values))
		}
		if err := q.set(key, values[0]); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	for _, kind := range from["kind"] {
		if len(q.Kinds) == maxKinds || len(kind) > maxName {
			return nil, fmt.Errorf("kind: more than %d, or longer than %d bytes", maxKinds, maxName)
		}
		q.Kinds = append(q.Kinds, history.Kind(kind))
	}
	return q, nil
}

const maxKinds = 32

func (q *question) set(key, value string) (err error) {
	switch key {
	case "after":
		q.After, err = strconv.ParseUint(value, 10, 64)
	case "since":
		q.Since, err = time.Parse(time.RFC3339Nano, value)
	case "limit":
		if q.Limit, err = strconv.Atoi(value); err == nil && (q.Limit < 1 || q.Limit > history.MaxEvents) {
			err = fmt.Errorf("%d is not within 1..%d", q.Limit, history.MaxEvents)
		}
	case "about":
		if q.About = value; len(value) > maxAbout {
			err = fmt.Errorf("is longer than %d bytes", maxAbout)
		}
	case "wait":
		if q.wait, err = time.ParseDuration(value); err == nil && (q.wait < 0 || q.wait > maxWait) {
			err = fmt.Errorf("%s is not within 0s..%s", q.wait, maxWait)
		}
	case "daemon":
		q.daemon, err = time.Parse(time.RFC3339Nano, value)
	default:
		err = errors.New("no such parameter; there are after, since, limit, about, kind, wait and daemon")
	}
	return err
}

// values are the parameters of a request that asks q.
func (q *question) values() url.Values {
	v := url.Values{}
	set := func(key, value string, given bool) {
		if given {
			v.Set(key, value)
		}
	}
	set("after", strconv.FormatUint(q.After, 10), q.After > 0)
	set("since", q.Since.Format(time.RFC3339Nano), !q.Since.IsZero())
	set("limit", strconv.Itoa(q.Limit), q.Limit > 0)
	set("about", q.About, q.About != "")
	set("wait", q.wait.String(), q.wait > 0)
	set("daemon", q.daemon.Format(time.RFC3339Nano), !q.daemon.IsZero())
	for _, kind := range q.Kinds {
		v.Add("kind", string(kind))
	}
	return v
}

// Status asks for the state of the node. With wait it is answered when something has
// happened after the event after, or when the wait is over.
func (c *Client) Status(ctx context.Context, after uint64, wait Wait) (*inspect.Status, error) {
	s := new(inspect.Status)
	q := question{history.Query{After: after}, min(wait.For, maxWait), wait.Daemon}
	return s, c.get(ctx, "status", &q, s)
}

// Explain asks why what a name names runs where it runs.
func (c *Client) Explain(ctx context.Context, name string) (*inspect.Explanation, error) {
	e := new(inspect.Explanation)
	return e, c.get(ctx, "explain", &question{Query: history.Query{About: name}}, e)
}

// Events asks for what has happened. With wait it is answered when there is something.
func (c *Client) Events(ctx context.Context, asked history.Query, wait Wait) (*inspect.Events, error) {
	e := new(inspect.Events)
	return e, c.get(ctx, "events", &question{asked, min(wait.For, maxWait), wait.Daemon}, e)
}

// maxAnswer bounds what a client reads: a node of 1024 CPUs and 1000 containers, or all
// events, are a few MiB.
const maxAnswer = 64 << 20

// get asks a question and decodes the answer.
func (c *Client) get(ctx context.Context, what string, q *question, into any) error {
	ctx, cancel := context.WithTimeout(ctx, q.wait+answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://cpupoold/v1/"+what+"?"+q.values().Encode(), nil)
	if err != nil {
		return err
	}
	text, err := c.do(r, maxAnswer)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("the daemon at %s: decode its answer: %w", c.socket, err)
	}
	return nil
}
