package control

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// still is a daemon of three events that nothing happens to any more.
type still struct{ *history.Snapshot }

func newStill() still {
	l := history.New()
	l.Add(history.Event{Kind: history.Started})
	l.Add(history.Event{Kind: history.Placed, Pod: "ran/du-0", Container: "app"})
	l.Add(history.Event{Kind: history.Wrote, Unit: "gnss.service"})
	return still{l.Snapshot()}
}

func (still) Started() time.Time           { return time.Unix(1700000000, 0).UTC() }
func (s still) History() *history.Snapshot { return s.Snapshot }
func (still) Status() *inspect.Status      { return &inspect.Status{Version: inspect.Version} }
func (still) Explain(name string) (*inspect.Explanation, error) {
	if name != "du" {
		return nil, &inspect.NameError{Text: "no " + name}
	}
	return &inspect.Explanation{Version: inspect.Version, Asked: name}, nil
}

// FuzzQuestion: what is accepted is within the limits, and asks the same when it is written
// down and read again; nothing makes the handlers panic or answer other than 200, 400 and, for
// what nobody knows, 404.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{
		"", "after=1&limit=1", "after=7&wait=30s&since=2026-01-31T12:00:00Z&about=ran/du-0&kind=wrote&kind=failed&limit=10",
		"wait=31s", "wait=-1s", "limit=0", "limit=4097", "after=-1", "after=1&after=2", "colour=red", "since=yesterday", "daemon=2026-01-31T12:00:00.5Z&wait=1s", "daemon=me", "kind=", "about=%00",
	} {
		f.Add(s)
	}
	s := New(nil, time.Second, newStill(), slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		q, err := parseQuestion(values)
		want := http.StatusBadRequest
		if err == nil {
			want = http.StatusOK
			if q.wait < 0 || q.wait > maxWait || q.Limit < 0 || q.Limit > history.MaxEvents || len(q.About) > maxAbout || len(q.Kinds) > maxKinds {
				t.Fatalf("%q: %+v is beyond the limits", query, q)
			}
			again, err := parseQuestion(q.values())
			if err != nil || !same(q, again) {
				t.Fatalf("%q: %+v is read again as %+v, %v", query, q, again, err)
			}
			if q.wait > 0 {
				return // it would be waited for
			}
		}
		for _, path := range []string{"/v1/status", "/v1/events", "/v1/explain"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.RawQuery = values.Encode()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if path == "/v1/explain" && err == nil && q.About != "du" {
				want = http.StatusNotFound
			}
			if w.Code != want {
				t.Fatalf("GET %s?%s: %d %s; want %d", path, query, w.Code, w.Body, want)
			}
		}
	})
}

func same(a, b *question) bool {
	return a.After == b.After && a.Since.Equal(b.Since) && a.About == b.About && a.Limit == b.Limit && a.wait == b.wait && a.daemon.Equal(b.daemon) && slices.Equal(a.Kinds, b.Kinds)
}
