package control_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func move(container string) control.Move {
	return control.Move{PodUID: "uid", Container: container, From: cpuset.Of(2, 4), To: cpuset.Range(2, 3)}
}

// serve runs a server until the end of the test. It returns when the server listens.
func serve(t *testing.T, f control.MoveFunc, timeout time.Duration) (client *control.Client, socket string, stop func()) {
	t.Helper()
	return serveAnswers(t, f, timeout, newFake())
}

func serveAnswers(t *testing.T, f control.MoveFunc, timeout time.Duration, answers control.Answers) (client *control.Client, socket string, stop func()) {
	t.Helper()
	return serveOn(t, control.New(f, timeout, control.ClaimFuncs{}, answers, slog.New(slog.DiscardHandler)))
}

func serveOn(t *testing.T, server *control.Server) (client *control.Client, socket string, stop func()) {
	t.Helper()
	socket = control.Socket(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, socket)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	t.Cleanup(stop)
	nodefixture.Eventually(t, "server reachable", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("Serve = %v", err)
		default:
		}
		return control.NewClient(socket).Reach(t.Context()) == nil
	})
	return control.NewClient(socket), socket, stop
}

func TestMoves(t *testing.T) {
	var asked []control.Move
	client, _, _ := serve(t, func(_ context.Context, m control.Move) (control.Outcome, error) {
		asked = append(asked, m)
		if m.Container == "held" {
			return control.Refused, errors.New("has exited")
		}
		return control.Done, nil
	}, time.Minute)
	got, err := client.Move(t.Context(), []control.Move{move("du"), move("held"), move("cu")})
	want := []control.Result{
		{Move: move("du"), Outcome: control.Done},
		{Move: move("held"), Outcome: control.Refused, Detail: "has exited"},
		{Move: move("cu"), Outcome: control.Skipped, Detail: "a move before it was not done"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Move: %v, results (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]control.Move{move("du"), move("held")}, asked); diff != "" {
		t.Errorf("moves that were tried (-want +got):\n%s", diff)
	}
}

func TestMoveTimeout(t *testing.T) {
	client, _, _ := serve(t, func(ctx context.Context, _ control.Move) (control.Outcome, error) {
		<-ctx.Done()
		return control.Unverified, ctx.Err()
	}, time.Millisecond)
	got, err := client.Move(t.Context(), []control.Move{move("du")})
	want := []control.Result{{Move: move("du"), Outcome: control.Unverified, Detail: "context deadline exceeded"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Move: %v, results (-want +got):\n%s", err, diff)
	}
}

func TestOneAtATime(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	client, _, _ := serve(t, func(context.Context, control.Move) (control.Outcome, error) {
		begun <- true
		<-release
		return control.Done, nil
	}, time.Minute)
	first := make(chan error)
	go func() {
		_, err := client.Move(t.Context(), []control.Move{move("du")})
		first <- err
	}()
	<-begun
	if _, err := client.Move(t.Context(), []control.Move{move("cu")}); err == nil || !strings.Contains(err.Error(), "another request") {
		t.Errorf("second Move = %v; want a refusal", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("first Move = %v", err)
	}
}

func TestEndOfDaemonEndsMoves(t *testing.T) {
	begun := make(chan bool)
	client, socket, stop := serve(t, func(ctx context.Context, _ control.Move) (control.Outcome, error) {
		close(begun)
		<-ctx.Done()
		return control.Unverified, errors.New("the daemon is ending")
	}, time.Hour)
	answered := make(chan []control.Result)
	go func() {
		r, err := client.Move(t.Context(), []control.Move{move("du")})
		if err != nil {
			t.Errorf("Move = %v", err)
		}
		answered <- r
	}()
	<-begun
	stop()
	if r := <-answered; len(r) != 1 || r[0].Outcome != control.Unverified {
		t.Errorf("results = %+v; want one that is unverified", r)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	if err := client.Reach(t.Context()); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("Reach without a daemon = %v; want %v", err, control.ErrNoDaemon)
	}
	if _, err := client.Move(t.Context(), []control.Move{move("du")}); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("Move without a daemon = %v; want %v", err, control.ErrNoDaemon)
	}
}

func TestSocketIsPrivateAndReplaced(t *testing.T) {
	f := func(context.Context, control.Move) (control.Outcome, error) { return control.Done, nil }
	_, socket, _ := serve(t, f, time.Minute)
	info, err := os.Lstat(socket)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket has mode %v, %v; want 0600", info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(socket), ".socket-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// A killed daemon leaves its socket. The next daemon replaces it.
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- control.New(f, time.Minute, control.ClaimFuncs{}, newFake(), slog.New(slog.DiscardHandler)).Serve(ctx, socket)
	}()
	nodefixture.Eventually(t, "a new socket", func() bool {
		now, err := os.Lstat(socket)
		if err != nil {
			t.Fatal(err)
		}
		return !os.SameFile(info, now)
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve over an old socket = %v", err)
	}
}

func TestServeKeepsOtherFiles(t *testing.T) {
	file := control.Socket(t.TempDir())
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, socket := range []string{file, "/no/such/directory/s"} {
		err := control.New(nil, time.Minute, control.ClaimFuncs{}, newFake(), slog.New(slog.DiscardHandler)).Serve(t.Context(), socket)
		if err == nil || !strings.Contains(err.Error(), socket) {
			t.Errorf("Serve(%s) = %v; want an error that names it", socket, err)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Errorf("Serve deleted a file at its path: %v", err)
	}
	client := control.NewClient(file)
	if _, err := client.Move(t.Context(), []control.Move{move("du")}); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("Move to a file = %v; want %v", err, control.ErrNoDaemon)
	}
}

func TestBadRequests(t *testing.T) {
	_, socket, _ := serve(t, func(context.Context, control.Move) (control.Outcome, error) {
		t.Error("a move was made")
		return control.Done, nil
	}, time.Minute)
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/v1/moves", "", 405, ""},
		{"POST", "/v2/moves", "[]", 404, ""},
		{"POST", "/v1/moves", "", 400, "decode moves: EOF"},
		{"POST", "/v1/moves", "[]", 400, "0 moves; request 1 to 4096 at once"},
		{"POST", "/v1/moves", `[{"container":"a","from":"1","to":"2"}] x`, 400, "something follows the list"},
		{"POST", "/v1/moves", `[{"container":"a","from":"1","to":"2","force":true}]`, 400, `unknown field \"force\"`},
		{"POST", "/v1/moves", `[{"podUID":"u","from":"1","to":"2"}]`, 400, "move 1: container is empty"},
		{"POST", "/v1/moves", `[{"container":"a","to":"2"}]`, 400, "move 1: from is empty"},
		{"POST", "/v1/moves", `[{"container":"a","from":"2"}]`, 400, "move 1: to is empty"},
		{"POST", "/v1/moves", `[{"container":"a","from":"2-1","to":"3"}]`, 400, "2-1"},
		{"POST", "/v1/moves", `[{"container":"` + strings.Repeat("a", 300) + `","from":"2","to":"3"}]`, 400, "longer than 253 bytes"},
		{"POST", "/v1/moves", "[" + strings.Repeat(" ", 1<<20) + "]", 413, "too large"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://x"+c.path, bytes.NewReader([]byte(c.body)))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || !strings.Contains(string(body), c.want) {
			t.Errorf("%s %s %.80q = %d %q, %v; want %d with %q", c.method, c.path, c.body, answer.StatusCode, body, err, c.status, c.want)
		}
	}
}
