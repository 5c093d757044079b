package control

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// staticDaemon is a daemon with three events, and no later ones.
type staticDaemon struct{ *history.Snapshot }

func newStaticDaemon() staticDaemon {
	l := history.New()
	l.Add(history.Event{Kind: history.Started})
	l.Add(history.Event{Kind: history.Placed, Pod: "ran/du-0", Container: "app"})
	l.Add(history.Event{Kind: history.Wrote, Unit: "gnss.service"})
	return staticDaemon{l.Snapshot()}
}

func (staticDaemon) Started() time.Time           { return time.Unix(1700000000, 0).UTC() }
func (s staticDaemon) History() *history.Snapshot { return s.Snapshot }
func (staticDaemon) Status() *inspect.Status      { return &inspect.Status{Version: inspect.Version} }
func (staticDaemon) Claims() *inspect.Claims      { return &inspect.Claims{Version: inspect.Version} }
func (staticDaemon) Explain(name string) (*inspect.Explanation, error) {
	if name != "du" {
		return nil, &inspect.NameError{Text: "no " + name}
	}
	return &inspect.Explanation{Version: inspect.Version, Asked: name}, nil
}

// FuzzQuery checks that accepted queries are within the limits and survive encoding and
// parsing. The handlers answer 200, 400 or, for an unknown name, 404.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{
		"", "after=1&limit=1", "after=7&wait=30s&since=2026-01-31T12:00:00Z&about=ran/du-0&kind=wrote&kind=failed&limit=10",
		"wait=31s", "wait=-1s", "limit=0", "limit=4097", "after=-1", "after=1&after=2", "colour=red", "since=yesterday", "daemon=2026-01-31T12:00:00.5Z&wait=1s", "daemon=me", "kind=", "about=%00",
	} {
		f.Add(s)
	}
	s := New(nil, time.Second, ClaimFuncs{}, newStaticDaemon(), slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, text string) {
		values, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		q, err := parseQuery(values)
		want := http.StatusBadRequest
		if err == nil {
			want = http.StatusOK
			if q.wait < 0 || q.wait > maxWait || q.Limit < 0 || q.Limit > history.MaxEvents || len(q.About) > maxAbout || len(q.Kinds) > maxKinds {
				t.Fatalf("%q: %+v is outside the limits", text, q)
			}
			again, err := parseQuery(q.values())
			if err != nil || !same(q, again) {
				t.Fatalf("%q: %+v is parsed again as %+v, %v", text, q, again, err)
			}
			if q.wait > 0 {
				return // the handler would wait
			}
		}
		for _, path := range []string{"/v1/status", "/v1/events", "/v1/claims", "/v1/explain"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.RawQuery = values.Encode()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if path == "/v1/explain" && err == nil && q.About != "du" {
				want = http.StatusNotFound
			}
			if w.Code != want {
				t.Fatalf("GET %s?%s: %d %s; want %d", path, text, w.Code, w.Body, want)
			}
		}
	})
}

func same(a, b *query) bool {
	return a.After == b.After && a.Since.Equal(b.Since) && a.About == b.About && a.Limit == b.Limit && a.wait == b.wait && a.daemon.Equal(b.daemon) && slices.Equal(a.Kinds, b.Kinds)
}

// FuzzClaim checks that accepted claims are within the limits, and survive encoding and decoding.
func FuzzClaim(f *testing.F) {
	f.Add("u", `{"namespace": "ran", "name": "du-0", "podUID": "p", "requests": [{"request": "cpus", "device": "numa0", "shareID": "s", "cpus": 2}]}`)
	f.Add("u", `{"requests": [{"cpus": 1e3}, {"cpus": -1}]}`)
	f.Add("../u", `{"namespace": "\u001b", "unknown": {}}`)
	f.Fuzz(func(t *testing.T, uid, body string) {
		claim, err := decodeClaim(uid, []byte(body))
		if err != nil {
			return
		}
		names := []string{claim.UID, claim.Namespace, claim.Name, claim.PodUID}
		for _, p := range claim.Parts {
			names = append(names, p.Request, p.Device)
			if p.CPUs < 1 || p.CPUs > cpuset.MaxCPUs || len(p.ShareID) > maxName {
				t.Errorf("%q: part %+v is outside the limits", body, p)
			}
		}
		for _, name := range names {
			if name == "" || len(name) > maxName || strings.ContainsAny(name, "\x00\x1b\n\"|,") {
				t.Errorf("%q: accepted name %q", body, name)
			}
		}
		again, err := json.Marshal(claimBody{claim.Namespace, claim.Name, claim.PodUID, claim.Parts})
		if err != nil {
			t.Fatal(err)
		}
		if decoded, err := decodeClaim(uid, again); err != nil || !slices.Equal(decoded.Parts, claim.Parts) {
			t.Errorf("%s is decoded as %+v, %v; want %+v", again, decoded, err, claim)
		}
	})
}
