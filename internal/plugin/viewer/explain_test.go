package viewer_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

// explaining is a server of the sample whose explanations come from by.
func explaining(t testing.TB, by viewer.Explainer) (http.Handler, *inspect.Status) {
	t.Helper()
	s, err := viewer.Read(strings.NewReader(sample(t, "8.json")))
	if err != nil {
		t.Fatal(err)
	}
	f := viewer.NewFeed()
	f.Put(s)
	server := viewer.New(one{f}, "localhost")
	if by != nil {
		server.Explains(by)
	}
	return server.Handler(), s
}

func TestExplain(t *testing.T) {
	var asked []string
	fails := error(nil)
	h, s := explaining(t, func(ctx context.Context, _ string, c *inspect.Container) (*inspect.Explanation, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a query has no deadline; want one")
		}
		asked = append(asked, viewer.Name(c))
		return &inspect.Explanation{Version: inspect.Version, Subjects: []inspect.Subject{{Container: *c}}}, fails
	})
	for i := range s.Containers {
		name := viewer.Name(&s.Containers[i])
		w := get(t, h, "localhost", "/explain?of="+url.QueryEscape(name))
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"subjects"`) || len(asked) != i+1 || asked[i] != name {
			t.Errorf("%s = %d %.200s, queries = %q; want its subjects and one query", name, w.Code, w.Body, asked)
		}
	}
	n := len(asked)
	for query, want := range map[string]int{
		"": http.StatusBadRequest, "?of=": http.StatusBadRequest, "?of=" + strings.Repeat("x", 1025): http.StatusBadRequest,
		"?of=--help": http.StatusNotFound, "?of=ran": http.StatusNotFound, "?of=%00": http.StatusNotFound, "?of=../x": http.StatusNotFound,
	} {
		if w := get(t, h, "localhost", "/explain"+query); w.Code != want {
			t.Errorf("%.20q: %d %s; want %d", query, w.Code, w.Body, want)
		}
	}
	at := "/explain?of=" + url.QueryEscape(viewer.Name(&s.Containers[0]))
	for site, want := range map[string]int{"cross-site": http.StatusForbidden, "same-site": http.StatusForbidden} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		r.Host = "localhost"
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != want {
			t.Errorf("a page that is %s: %d; want %d", site, w.Code, want)
		}
	}
	if len(asked) != n {
		t.Errorf("queries of refused requests = %q; want none", asked[n:])
	}
	fails = errors.New("exec is forbidden")
	if w := get(t, h, "localhost", at); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "exec is forbidden") {
		t.Errorf("answer after the daemon's failure = %d %s; want the error", w.Code, w.Body)
	}
}

// TestUnexplained checks that a status from a file explains how to get an explanation.
func TestUnexplained(t *testing.T) {
	h, s := explaining(t, nil)
	w := get(t, h, "localhost", "/explain?of="+url.QueryEscape(viewer.Name(&s.Containers[0])))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "cpupoold explain") || strings.Contains(w.Body.String(), `"explanation"`) {
		t.Errorf("%d %s; want what to do", w.Code, w.Body)
	}
}

func TestReadExplanation(t *testing.T) {
	for in, want := range map[string]string{
		"": "no explanation", "{": "no explanation", `{"version": 9}`: "version 9", "[]": "no explanation",
		`{"version": 1, "asked": "` + strings.Repeat("x", 9<<20): "8388608 bytes",
	} {
		if _, err := viewer.ReadExplanation(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v; want %q", in, err, want)
		}
	}
	if e, err := viewer.ReadExplanation(strings.NewReader(`{"version": 1, "asked": "x", "subjects": []}`)); err != nil || e.Asked != "x" {
		t.Errorf("ReadExplanation = %+v, %v", e, err)
	}
}

// FuzzExplain checks that only subjects of the state are looked up.
func FuzzExplain(f *testing.F) {
	for _, s := range []string{"", "of=ran", "of=--help", "of=%zz", "of=a&of=b", "of=gnss.service", ";"} {
		f.Add(s)
	}
	known := make(map[string]bool)
	h, s := explaining(f, func(_ context.Context, _ string, c *inspect.Container) (*inspect.Explanation, error) {
		if !known[viewer.Name(c)] {
			return nil, errors.New("asked for a stranger")
		}
		return &inspect.Explanation{}, nil
	})
	for i := range s.Containers {
		known[viewer.Name(&s.Containers[i])] = true
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/explain", nil)
		r.Host, r.URL.RawQuery = "localhost", query
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusBadRequest, http.StatusNotFound:
		case http.StatusOK:
			if !known[r.URL.Query().Get("of")] || strings.Contains(w.Body.String(), "stranger") {
				t.Errorf("answer to %q = %s; want subjects of the state only", query, w.Body)
			}
		default:
			t.Errorf("%q = %d %s; want 200 or an error of the client", query, w.Code, w.Body)
		}
	})
}
