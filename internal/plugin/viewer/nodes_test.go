package viewer_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

// Documents of two nodes as simulate prints them, and of one node of a daemon.
const (
	twoNodes = `{"version": 1, "nodes": [
{"version": 1, "node": "b", "cpus": [{"id": 0, "online": true}], "problems": [{"pod": "ran/du-0", "code": "Refused", "text": "no CPUs"}, {"code": "<b>"}], "notes": ["assumed"],
 "containers": [{"namespace": "ran", "pod": "du-0", "podUID": "u", "name": "phy", "code": "Refused"}],
 "subjects": [{"container": {"namespace": "ran", "pod": "du-0", "podUID": "u", "name": "phy"}, "sentence": "it is refused"}]},
{"version": 1, "node": "a", "cpus": [{"id": 0, "online": true}]}]}`
	daemonNode = `{"version": 1, "node": "c", "daemon": {"mode": "enforce"}, "cpus": [{"id": 0, "online": true}]}`
)

// names returns the nodes of a set with their problems.
func names(t *testing.T, s *viewer.Set) string {
	t.Helper()
	b, err := json.Marshal(s.List())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSet checks the nodes of a stream: lists replace all nodes, and single documents add to
// them.
func TestSet(t *testing.T) {
	s := viewer.NewSet()
	waiting := s.Feed("")
	_, changed := waiting.Now()
	if err := s.Follow(strings.NewReader(twoNodes)); err != nil {
		t.Errorf("Follow = %v; want nil, because a simulation is complete", err)
	}
	<-changed
	if got, want := names(t, s), `[{"name":"a","problems":0},{"name":"b","problems":2}]`; got != want {
		t.Errorf("nodes are %s; want %s", got, want)
	}
	if s.Feed("") != s.Feed("a") || s.Feed("a") != waiting || s.Feed("c") != nil {
		t.Error("the first node is not a, its feed is not the one that waited, or c has a feed")
	}
	if err := s.Follow(strings.NewReader(daemonNode + twoNodes + daemonNode)); !errors.Is(err, io.EOF) {
		t.Errorf("Follow = %v; want the end of a stream of a daemon", err)
	}
	if got, want := names(t, s), `[{"name":"a","problems":0},{"name":"b","problems":2},{"name":"c","problems":0}]`; got != want {
		t.Errorf("nodes are %s; want %s", got, want)
	}
	if state, _ := s.Feed("a").Now(); state.Number != 1 {
		t.Errorf("a has state %d after the same document; want 1", state.Number)
	}
	s.End(errors.New("the end"))
	if state, _ := s.Feed("b").Now(); state.Err == nil || state.Status == nil {
		t.Errorf("at the end b has %+v; want the last status and an error", state)
	}
}

// TestSetOnly checks that --node limits the nodes.
func TestSetOnly(t *testing.T) {
	s := viewer.NewSet("b")
	if err := s.Follow(strings.NewReader(twoNodes)); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, s), `[{"name":"b","problems":2}]`; got != want {
		t.Errorf("nodes are %s; want %s", got, want)
	}
}

// TestFollowFile checks that a file that changes replaces the nodes, and that an error keeps
// the last states.
func TestFollowFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := viewer.NewSet()
		ctx, cancel := context.WithCancel(t.Context())
		type file struct {
			content string
			failure error
		}
		var now atomic.Pointer[file]
		now.Store(&file{content: twoNodes})
		go s.FollowFile(ctx, func() ([]viewer.Document, error) {
			f := now.Load()
			all, err := viewer.ReadAll(strings.NewReader(f.content))
			return all, errors.Join(err, f.failure)
		}, time.Second)
		synctest.Wait()
		first, _ := s.Feed("b").Now()
		now.Store(&file{twoNodes, errors.New("gone")})
		time.Sleep(time.Second)
		synctest.Wait()
		if state, _ := s.Feed("b").Now(); state.Err == nil || state.Status != first.Status {
			t.Errorf("state of b after an error = %+v; want the error and the earlier status", state)
		}
		now.Store(&file{content: daemonNode})
		time.Sleep(time.Second)
		synctest.Wait()
		if got, want := names(t, s), `[{"name":"c","problems":0}]`; got != want {
			t.Errorf("nodes are %s; want %s", got, want)
		}
		cancel()
	})
}

// TestServerOfNodes checks the requests for one of several nodes.
func TestServerOfNodes(t *testing.T) {
	s := viewer.NewSet()
	if err := s.Follow(strings.NewReader(twoNodes)); err != nil {
		t.Fatal(err)
	}
	server := viewer.New(s, "localhost")
	var asked []string
	server.Explains(func(_ context.Context, node string, c *inspect.Container) (*inspect.Explanation, error) {
		asked = append(asked, node+" "+c.Full())
		return &inspect.Explanation{}, nil
	})
	h := server.Handler()
	var state struct {
		Nodes  []viewer.Listed
		Status struct{ Node string }
		Notes  []string
		Links  map[string]string
	}
	if err := json.Unmarshal(get(t, h, "localhost", "/state?node=b&width=5000000").Body.Bytes(), &state); err != nil {
		t.Fatal(err)
	}
	const link = "https://github.com/cpupoold/cpupoold/blob/main/docs/reference/problem-codes.md#refused"
	if d := cmp.Diff(map[string]string{"Refused": link, "<b>": ""}, state.Links); d != "" || state.Status.Node != "b" || len(state.Nodes) != 2 || len(state.Notes) != 1 {
		t.Errorf("state of b is %+v; links (-want +got):\n%s", state, d)
	}
	for path, want := range map[string]int{"/state?node=x": http.StatusNotFound, "/picture.svg?node=x": http.StatusNotFound, "/explain?node=x&of=u/phy": http.StatusNotFound,
		"/explain?node=a&of=u/phy": http.StatusNotFound, "/state": http.StatusOK, "/picture.svg?node=b": http.StatusOK, "/state?width=x": http.StatusOK, "/state?width=-1": http.StatusOK} {
		if w := get(t, h, "localhost", path); w.Code != want {
			t.Errorf("%s: %d; want %d", path, w.Code, want)
		}
	}
	if w := get(t, h, "localhost", "/explain?node=b&of=u/phy"); !strings.Contains(w.Body.String(), "it is refused") || len(asked) > 0 {
		t.Errorf("explanation of the document = %s, queries = %q; want the refusal and no query", w.Body, asked)
	}
	if err := s.Follow(strings.NewReader(strings.Replace(twoNodes, `"subjects"`, `"none"`, 1))); err != nil {
		t.Fatal(err)
	}
	get(t, h, "localhost", "/explain?node=b&of=u/phy")
	if want := []string{"b ran/du-0/phy"}; !cmp.Equal(asked, want) {
		t.Errorf("asked for %q; want %q", asked, want)
	}
}
