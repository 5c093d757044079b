package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestServe: it says where it listens, answers there from what comes in, and ends
// without an error when it is stopped.
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
	get := func(path string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSpace(line)+path, nil)
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
	if page := get(""); !strings.Contains(page, "Who runs where") {
		t.Errorf("the page is %.300s", page)
	}
	if _, err := io.WriteString(states, `{"version": 1, "node": "edge-1", "cpus": [{"id": 0, "online": true}]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if state := get("state?after=0"); !strings.Contains(state, "edge-1") {
		t.Errorf("the state is %.300s", state)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
}
