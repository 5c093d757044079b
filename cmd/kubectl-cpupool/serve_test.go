package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/report"
)

// TestServe checks that serve prints its address, answers there from its input, and
// ends without an error when it is stopped.
func TestServe(t *testing.T) {
	in, states := io.Pipe()
	out, w := io.Pipe()
	defer states.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		o := &serveOptions{file: "-", listen: "127.0.0.1:0"}
		ended <- o.run(ctx, streams{in, w, w})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string { return got(t, strings.TrimSpace(line)+path) }
	if page := get(""); !strings.Contains(page, "state.js") {
		t.Errorf("page = %.300s; want state.js", page)
	}
	if _, err := io.WriteString(states, `{"version": 1, "node": "edge-1", "cpus": [{"id": 0, "online": true}]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if state := get("state?after=0"); !strings.Contains(state, "edge-1") {
		t.Errorf("state = %.300s; want edge-1", state)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// got is the answer of a server.
func got(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestServeReport checks that serve explains the containers of a report's explanations,
// and no others.
func TestServeReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.tar.gz")
	to, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	err = report.Write(to, "r", []report.File{
		{Name: "status.json", Data: []byte(`{"version": 1, "cpus": [{"id": 0, "online": true}], "containers": [{"podUID": "u", "name": "app"}, {"podUID": "u", "name": "other"}, {"podUID": "v", "name": "app"}]}`)},
		{Name: "explanations.json", Data: []byte(`{"version": 1, "subjects": [{"container": {"podUID": "u", "name": "other"}, "rules": [{"name": "QoS"}]}, {"container": {"podUID": "u", "name": "app"}, "rules": [{"name": "Exclusive"}]}]}`)},
	}, time.Unix(1700000000, 0))
	if err := errors.Join(err, to.Close()); err != nil {
		t.Fatal(err)
	}
	out, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		o := &serveOptions{file: file, listen: "127.0.0.1:0"}
		ended <- o.run(ctx, streams{strings.NewReader(""), w, w})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string { return got(t, strings.TrimSpace(line)+path) }
	get("state?after=0") // it has been read
	if e := get("explain?of=u/app"); !strings.Contains(e, "Exclusive") || strings.Contains(e, "QoS") {
		t.Errorf("explanation of u/app = %s; want Exclusive without QoS", e)
	}
	if e := get("explain?of=v/app"); !strings.Contains(e, "the report does not explain") {
		t.Errorf("v/app is explained as %s; want no explanation, as in the report", e)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestServeChanges checks that a file is read again when it changes, also after it was
// missing.
func TestServeChanges(t *testing.T) {
	file := filepath.Join(t.TempDir(), "status.json")
	write := func(node string) {
		if err := os.WriteFile(file, []byte(`{"version": 1, "node": "`+node+`", "cpus": [{"id": 0, "online": true}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	read := (&serveOptions{file: file}).readChanged()
	check := func(want string) {
		t.Helper()
		all, err := read()
		got := ""
		switch {
		case err != nil:
			got = "error"
		case len(all) > 0:
			got = all[0].Node
		}
		if got != want {
			t.Errorf("read %q, %v; want %q", got, err, want)
		}
	}
	check("a")
	check("")
	write("other")
	check("other")
	check("")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("error")
	write("other")
	check("other")
}
