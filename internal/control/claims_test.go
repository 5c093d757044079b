package control_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// claimServer returns a server that prepares each claim on CPUs 2-3, and ends the claims of pod "p". It refuses the
// claim "full", and cannot decide about the claim "later".
func claimServer(prepared *[]pools.Claim) *control.Server {
	decide := func(uid string) error {
		switch uid {
		case "full":
			return control.Conflict{Text: "too few CPUs"}
		case "later":
			return errors.New("try again")
		}
		return nil
	}
	funcs := control.ClaimFuncs{
		Prepare: func(_ context.Context, c pools.Claim) (all []inspect.ClaimPart, err error) {
			*prepared = append(*prepared, c)
			for _, p := range c.Parts {
				all = append(all, inspect.ClaimPart{Request: p.Request, Device: p.Device, ShareID: p.ShareID, CPUs: cpuset.Range(2, 3)})
			}
			return all, decide(c.UID)
		},
		End: func(_ context.Context, uid, podUID string) error {
			if podUID != "" && podUID != "p" {
				return control.Conflict{Text: "for pod p, not " + podUID}
			}
			return decide(uid)
		},
	}
	return control.New(nil, time.Minute, funcs, newFake(), slog.New(slog.DiscardHandler))
}

func TestClaimRequests(t *testing.T) {
	const good = `{"namespace": "ran", "name": "du-0", "podUID": "p", "requests": [{"request": "cpus", "device": "numa0", "shareID": "s", "cpus": 2}]}`
	long := strings.Repeat("x", 254)
	for name, c := range map[string]struct {
		method, uid, body string
		status            int
		want              string
	}{
		"prepare":           {"PUT", "u", good, 200, `{"requests":[{"request":"cpus","device":"numa0","shareID":"s","cpus":"2-3"}]}`},
		"too few":           {"PUT", "full", good, 409, `{"error":"too few CPUs"}`},
		"not decided":       {"PUT", "later", good, 503, `{"error":"try again"}`},
		"UID with a slash":  {"PUT", "u%2Fx", good, 400, "uid \\\"u/x\\\" is not a name or UID"},
		"end":               {"DELETE", "u", "", 204, ""},
		"end of the pod":    {"DELETE", "u?podUID=p", "", 204, ""},
		"end: another pod":  {"DELETE", "u?podUID=q%2F1", "", 409, `{"error":"for pod p, not q/1"}`},
		"end: no pod":       {"DELETE", "u?podUID=", "", 400, "name the UID of a pod"},
		"end: two pods":     {"DELETE", "u?podUID=p&podUID=q", "", 400, "name the UID of a pod"},
		"end: unknown":      {"DELETE", "u?podUID=p&pod=q", "", 400, "name the UID of a pod"},
		"end: misspelt":     {"DELETE", "u?poduid=q", "", 400, "name the UID of a pod"},
		"end: no query":     {"DELETE", "u?podUID=%zz", "", 400, "invalid URL escape"},
		"in use":            {"DELETE", "full", "", 409, `{"error":"too few CPUs"}`},
		"end: not decided":  {"DELETE", "later", "", 503, `{"error":"try again"}`},
		"unknown field":     {"PUT", "u", strings.Replace(good, `"name"`, `"shared": true, "name"`, 1), 400, `unknown field`},
		"two objects":       {"PUT", "u", good + good, 400, "something follows"},
		"no requests":       {"PUT", "u", `{"namespace": "ran", "name": "du-0", "podUID": "p"}`, 400, "0 allocation results"},
		"no CPUs":           {"PUT", "u", strings.Replace(good, `"cpus": 2`, `"cpus": 0`, 1), 400, "allocation result 1: 0 CPUs"},
		"negative":          {"PUT", "u", strings.Replace(good, `"cpus": 2`, `"cpus": -1`, 1), 400, "allocation result 1: -1 CPUs"},
		"2^63":              {"PUT", "u", strings.Replace(good, `"cpus": 2`, `"cpus": 9223372036854775808`, 1), 400, "cannot unmarshal"},
		"half a CPU":        {"PUT", "u", strings.Replace(good, `"cpus": 2`, `"cpus": 1.5`, 1), 400, "cannot unmarshal"},
		"no pod":            {"PUT", "u", strings.Replace(good, `"p"`, `""`, 1), 400, "podUID has 0 bytes"},
		"long name":         {"PUT", "u", strings.Replace(good, "du-0", long, 1), 400, "name has 254 bytes"},
		"escape sequence":   {"PUT", "u", strings.Replace(good, "du-0", `\u001b[31m`, 1), 400, "name "},
		"same result twice": {"PUT", "u", strings.Replace(good, "}]", `}, {"request": "cpus", "device": "numa0", "shareID": "s", "cpus": 2}]`, 1), 400, "allocation result 2: an earlier one has the same request"},
		"large body":        {"PUT", "u", good + strings.Repeat(" ", 1<<17), 400, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			var prepared []pools.Claim
			w := httptest.NewRecorder()
			claimServer(&prepared).ServeHTTP(w, httptest.NewRequest(c.method, "/v1/claims/"+c.uid, strings.NewReader(c.body)))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%s %s = %d %s; want %d %s", c.method, c.uid, w.Code, w.Body, c.status, c.want)
			}
			if w.Code == http.StatusBadRequest && len(prepared) > 0 {
				t.Errorf("a bad request prepared %v; want nothing", prepared)
			}
		})
	}
}

// TestClaimClient checks that a client's claim arrives unchanged, and that errors keep their kind.
func TestClaimClient(t *testing.T) {
	var prepared []pools.Claim
	c, _, stop := serveOn(t, claimServer(&prepared))
	ctx := t.Context()
	claim := pools.Claim{UID: "u", Namespace: "ran", Name: "du", PodUID: "p", Parts: []pools.ClaimPart{{Request: "a/b", Device: "numa0", CPUs: 2}}}
	got, err := c.PrepareClaim(ctx, claim)
	if err != nil || len(got) != 1 || got[0].Request != "a/b" || got[0].CPUs.String() != "2-3" {
		t.Errorf("PrepareClaim = %v, %v; want CPUs 2-3", got, err)
	}
	if d := cmp.Diff([]pools.Claim{claim}, prepared); d != "" {
		t.Errorf("prepared claims (-want +got):\n%s", d)
	}
	if err := c.EndClaim(ctx, "u", ""); err != nil {
		t.Errorf("EndClaim: %v; want none", err)
	}
	if other, is := errors.AsType[control.Conflict](c.EndClaim(ctx, "u", "q/1&podUID=p")); !is || other.Text != "for pod p, not q/1&podUID=p" {
		t.Errorf("EndClaim for another pod = %v; want a Conflict with its UID", other)
	}
	if err := c.EndClaim(ctx, "u", "p"); err != nil {
		t.Errorf("EndClaim for the pod: %v; want none", err)
	}
	_, tooFew := c.PrepareClaim(ctx, pools.Claim{UID: "full", Namespace: "ran", Name: "du", PodUID: "p", Parts: claim.Parts})
	if _, is := errors.AsType[control.Conflict](tooFew); !is {
		t.Errorf("PrepareClaim = %v; want a Conflict", tooFew)
	}
	later := c.EndClaim(ctx, "later", "")
	if _, is := errors.AsType[control.Conflict](later); is || later == nil {
		t.Errorf("EndClaim = %v; want an error that is no Conflict", later)
	}
	if all, err := c.Claims(ctx, 0, control.Wait{}); err != nil || !all.Ready {
		t.Errorf("Claims = %+v, %v; want an answer", all, err)
	}
	stop()
}

// TestNewConnections checks that each request uses a new connection. The server answers one request on each
// connection. It closes the connection at the next request, as a daemon that ends can do.
func TestNewConnections(t *testing.T) {
	socket := control.Socket(t.TempDir())
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var server sync.WaitGroup
	defer server.Wait()
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server.Go(func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			server.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				in := bufio.NewReader(conn)
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, r.Body); err == nil {
					_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
					_, _ = in.ReadByte()
				}
			})
		}
	})
	client := control.NewClient(socket)
	for range 3 {
		if _, err := client.PrepareClaim(t.Context(), pools.Claim{UID: "u"}); err != nil {
			t.Error(err)
		}
	}
}

// TestWaitForClaims checks that a query with wait returns at the next event.
func TestWaitForClaims(t *testing.T) {
	f := newFake()
	f.add(history.Event{Kind: history.Started})
	c := dialFake(t, f)
	done := make(chan uint64, 1)
	go func() {
		all, err := c.Claims(t.Context(), 1, control.Wait{For: 30 * time.Second})
		if err != nil {
			t.Error(err)
			done <- 0
			return
		}
		done <- all.Sequence
	}()
	f.add(history.Event{Kind: history.Claim, Claim: "ran/du"})
	if got := <-done; got != 2 {
		t.Errorf("Claims returned at event %d; want 2", got)
	}
}
