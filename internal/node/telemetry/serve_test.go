package telemetry_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func TestServe(t *testing.T) {
	n := newNode(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.server.Serve(ctx, l) }()

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Errorf("/healthz = %q, %v; want ok", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v; want nil when its context is done", err)
	}
	if err := n.server.Serve(t.Context(), l); err == nil {
		t.Error("Serve on a closed listener = nil; want an error")
	}
}
