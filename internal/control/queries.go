package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// Answers returns the state of the daemon. Its methods are called from several goroutines.
// They use data that the event loop has published, so that the event loop never waits.
type Answers interface {
	// Started returns the time at which the daemon started. Another time is another daemon.
	Started() time.Time
	// History returns the events until now.
	History() *history.Snapshot
	// Status returns the state after the last pass.
	Status() *inspect.Status
	// Claims returns the devices and ResourceClaims after the last pass.
	Claims() *inspect.Claims
	// Explain returns the reasons for the CPUs of the object with this name. It returns an
	// [*inspect.NameError] if the name matches no object, or several.
	Explain(name string) (*inspect.Explanation, error)
}

const (
	maxWait    = 30 * time.Second // until an event
	maxAbout   = 3*maxName + 2    // bytes of namespace/pod/container
	maxQueries = 4                // answered at the same time
)

// handleQuery returns a handler that runs answer. It refuses queries above maxQueries.
func (s *Server) handleQuery(answer func(q *query) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			s.answer(w, http.StatusBadRequest, failure{err.Error()})
			return
		}
		if err := s.await(r.Context(), q); err != nil {
			// The client has closed the connection, or the daemon is stopping.
			s.answer(w, http.StatusServiceUnavailable, failure{"the daemon is stopping; try again when it has restarted"})
			return
		}
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			w.Header().Set("Retry-After", "1")
			s.answer(w, http.StatusServiceUnavailable, failure{fmt.Sprintf("%d queries are being answered; try again", maxQueries)})
			return
		}
		v, err := answer(q)
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

// await waits for an event after q.After, at most q.wait.
func (s *Server) await(ctx context.Context, q *query) error {
	if q.wait == 0 {
		return nil
	}
	timeout := time.NewTimer(q.wait)
	defer timeout.Stop()
	for {
		h := s.answers.History()
		some := history.Query{After: q.After, About: q.About, Kinds: q.Kinds, Limit: 1}
		// A client of an earlier daemon gets an answer immediately: its number After belongs
		// to the events of that daemon.
		if h.Last() < q.After || len(h.Select(some)) > 0 || !q.daemon.IsZero() && !q.daemon.Equal(s.answers.Started()) {
			return nil
		}
		select {
		case <-h.Changed:
		case <-timeout.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) events(q *query) (any, error) {
	h := s.answers.History()
	events := append([]history.Event{}, h.Select(q.Query)...)
	return inspect.Events{Version: inspect.Version, Started: s.answers.Started(), Last: h.Last(), Dropped: h.Dropped, Events: events}, nil
}

// explain uses the parameter about, and ignores the others.
func (s *Server) explain(q *query) (any, error) {
	if q.About == "" {
		return nil, &inspect.NameError{Text: "about is empty; name a pod, a container or a unit"}
	}
	return s.answers.Explain(q.About)
}

type query struct {
	history.Query
	wait   time.Duration // maximum time to wait for an event after Query.After; 0 does not wait
	daemon time.Time     // Started of an earlier answer; zero if the client has no answer yet
}

// Wait holds the conditions that end the wait for an event.
type Wait struct {
	// For is the maximum time, between 0 (do not wait) and 30s.
	For time.Duration
	// Daemon is the Started of an earlier answer: another daemon does not wait. Zero is any.
	Daemon time.Time
}

// parseQuery refuses unknown, repeated and too large parameters.
func parseQuery(from url.Values) (*query, error) {
	q := &query{}
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

func (q *query) set(key, value string) (err error) {
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
		err = errors.New("unknown parameter: use after, since, limit, about, kind, wait or daemon")
	}
	return err
}

func (q *query) values() url.Values {
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

// Status returns the state of the node. With wait it returns at an event above after.
func (c *Client) Status(ctx context.Context, after uint64, wait Wait) (*inspect.Status, error) {
	s := new(inspect.Status)
	q := query{history.Query{After: after}, min(wait.For, maxWait), wait.Daemon}
	return s, c.get(ctx, "status", &q, s)
}

// Explain returns the reasons for the CPUs of a pod, a container or a unit. It returns an
// [*inspect.NameError] if the name matches no object, or several.
func (c *Client) Explain(ctx context.Context, name string) (*inspect.Explanation, error) {
	e := new(inspect.Explanation)
	return e, c.get(ctx, "explain", &query{Query: history.Query{About: name}}, e)
}

// Events returns matching events. With wait it returns at the first one, or at the end.
func (c *Client) Events(ctx context.Context, asked history.Query, wait Wait) (*inspect.Events, error) {
	e := new(inspect.Events)
	return e, c.get(ctx, "events", &query{asked, min(wait.For, maxWait), wait.Daemon}, e)
}

// maxAnswer is in bytes. A status with 1,024 CPUs and 1,000 containers has a few MiB.
const maxAnswer = 64 << 20

func (c *Client) get(ctx context.Context, path string, q *query, into any) error {
	ctx, cancel := context.WithTimeout(ctx, q.wait+answerTimeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, path+"?"+q.values().Encode(), nil, maxAnswer, into)
}
