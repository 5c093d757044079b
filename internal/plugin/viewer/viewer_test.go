package viewer_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

func sample(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestReadRefuses(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"nothing":       {"", "it is empty"},
		"half":          {`{"version": 1, "cpus": [`, "ends too early"},
		"no JSON":       {"pools:", "no status"},
		"another thing": {`{"items": []}`, "version 0"},
		"newer":         {`{"version": 2}`, "version 2"},
		"no CPUs":       {`{"version": 1}`, "no CPUs"},
		"twice":         {`{"version": 1, "cpus": [{"id": 3}, {"id": 3}]}`, "CPU 3"},
		"negative":      {`{"version": 1, "cpus": [{"id": -3}]}`, "CPU -3"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := viewer.Read(strings.NewReader(test.in)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read = %v; want %q", err, test.want)
			}
		})
	}
}

// TestFollow checks the states one after the other, the load of CPUs between them, and
// the end.
func TestFollow(t *testing.T) {
	f := viewer.NewFeed()
	_, changed := f.Now()
	first, second := new(inspect.Status), new(inspect.Status)
	for i, s := range []*inspect.Status{first, second} {
		if err := json.Unmarshal([]byte(sample(t, "8.json")), s); err != nil {
			t.Fatal(err)
		}
		s.Time = s.Time.Add(time.Duration(10*i) * time.Second)
		for c := range s.CPUs {
			s.CPUs[c].Busy += float64(i * c)
		}
	}
	var in strings.Builder
	for _, s := range []*inspect.Status{first, second} {
		if err := json.NewEncoder(&in).Encode(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Follow(strings.NewReader(in.String())); !errors.Is(err, io.EOF) {
		t.Fatalf("Follow = %v; want the end", err)
	}
	select {
	case <-changed:
	default:
		t.Error("a waiting client gets no change")
	}
	state, _ := f.Now()
	if state.Number != 2 || !state.Status.Time.Equal(second.Time) || state.Load[3] != 0.3 || state.Load[0] != 0 {
		t.Errorf("state %d of %v, load %v; want the second, CPU 3 for 3 of 10 s", state.Number, state.Status.Time, state.Load)
	}
	if _, offline := state.Load[7]; offline {
		t.Error("load of an offline CPU exists; want none")
	}
	// Another daemon counts from its own start.
	again := *second
	again.Daemon.Started, again.Time = again.Daemon.Started.Add(time.Hour), again.Time.Add(time.Minute)
	f.Put(&again)
	if state, _ := f.Now(); len(state.Load) > 0 {
		t.Errorf("load between two daemons = %v; want none", state.Load)
	}
}

func TestFollowIsBounded(t *testing.T) {
	endless := io.MultiReader(strings.NewReader(`{"version": 1, "node": "`), zeros{})
	if err := viewer.NewFeed().Follow(endless); err == nil || !strings.Contains(err.Error(), "16777216 bytes") {
		t.Errorf("Follow = %v; want that there is too much", err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = '0'
	}
	return len(b), nil
}

func get(t *testing.T, h http.Handler, host, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func serve(t *testing.T, f *viewer.Feed) http.Handler {
	t.Helper()
	return viewer.New(one{f}, "localhost", "127.0.0.1", "::1").Handler()
}

func TestServer(t *testing.T) {
	f := viewer.NewFeed()
	h := serve(t, f)
	if w := get(t, h, "localhost:8480", "/picture.svg"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "nothing to show yet") {
		t.Errorf("picture before the first status = %d %s; want 503", w.Code, w.Body)
	}
	s, err := viewer.Read(strings.NewReader(sample(t, "8.json")))
	if err != nil {
		t.Fatal(err)
	}
	f.Put(s)
	for _, host := range []string{"localhost:8480", "LOCALHOST", "127.0.0.1:1", "[::1]:8480"} {
		for path, want := range map[string]string{"/": "state.js", "/page.css": "svg.cpus", "/picture.css": "svg.cpus", "/state.js": "follow()", "/picture.svg": "CPUs of edge-1", "/state": `"number":1`, "/state?after=0": `"number":1`} {
			w := get(t, h, host, path)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s%s: %d, without %q", host, path, w.Code, want)
			}
			if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") {
				t.Errorf("policy of %s%s = %q; want default-src 'none'", host, path, csp)
			}
		}
	}
	for _, host := range []string{"", "evil.example", "evil.example:8480", "localhost.evil.example"} {
		if w := get(t, h, host, "/state"); w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), "edge-1") {
			t.Errorf("state for host %q = %d; want 421", host, w.Code)
		}
	}
	for _, path := range []string{"/../etc/passwd", "/state/x", "/x", "/page/state.js", "/page.html/x"} {
		if w := get(t, h, "localhost", path); w.Code == http.StatusOK {
			t.Errorf("%s is answered; want an error", path)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/state", nil)
	r.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST = %d; want 405", w.Code)
	}
}

// TestWaits checks that a client with the latest state gets its answer when another
// state exists.
func TestWaits(t *testing.T) {
	f := viewer.NewFeed()
	h := serve(t, f)
	s, err := viewer.Read(strings.NewReader(sample(t, "8.json")))
	if err != nil {
		t.Fatal(err)
	}
	f.Put(s)
	answer := make(chan *httptest.ResponseRecorder)
	go func() { answer <- get(t, h, "localhost", "/state?after=1") }()
	f.End(errors.New("the file is <gone>"))
	if w := <-answer; !strings.Contains(w.Body.String(), `"number":2`) || !strings.Contains(w.Body.String(), "the file is") || !strings.Contains(w.Body.String(), "edge-1") {
		t.Errorf("answer = %d %.200s; want number 2 and the error", w.Code, w.Body)
	}
}

// holdsNoScript reads a drawing as a browser does: it is XML, of elements that only draw.
func holdsNoScript(t *testing.T, svg io.Reader) {
	t.Helper()
	for d := xml.NewDecoder(svg); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
		element, begins := token.(xml.StartElement)
		if !begins {
			continue
		}
		switch element.Name.Local {
		case "svg", "style", "defs", "pattern", "line", "rect", "g", "text", "title":
		default:
			t.Errorf("drawing has element %s", element.Name.Local)
		}
		for _, a := range element.Attr {
			if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
				t.Errorf("a %s has %s=%q", element.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

// FuzzRead checks that any file is refused, or can be shown.
func FuzzRead(f *testing.F) {
	f.Add(sample(f, "8.json"))
	f.Add(`{"version": 1, "cpus": [{"id": 0, "online": true, "core": -1, "package": 2147483647, "use": "<", "pool": "\"/><script>"}, {"id": 1, "online": true, "use": "\"/><script>", "type": "\u0001"}], "node": "\u0000&", "faults": [{}], "containers": [{"cpus": "0-3", "exclusive": true}]}`)
	f.Add(`{"version": 1, "cpus": [{"id": 9007199254740993}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		s, err := viewer.Read(strings.NewReader(in))
		if err != nil {
			return
		}
		feed := viewer.NewFeed()
		feed.Put(s)
		h := serve(t, feed)
		if w := get(t, h, "localhost", "/state"); w.Code != http.StatusOK {
			t.Errorf("state = %d %s; want 200", w.Code, w.Body)
		}
		holdsNoScript(t, get(t, h, "localhost", "/picture.svg").Body)
	})
}

// one is the viewer.Nodes of a single feed, which answers for each name.
type one struct{ feed *viewer.Feed }

func (o one) List() []viewer.Listed { return nil }

func (o one) Feed(string) *viewer.Feed { return o.feed }
