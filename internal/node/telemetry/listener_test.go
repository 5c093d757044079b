package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// served starts a server and returns its address.
func served(t *testing.T) string {
	t.Helper()
	n := newNode(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- n.server.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	return l.Addr().String()
}

// get sends a request over a new connection.
func get(t *testing.T, url string, header http.Header) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		r.Header = header
	}
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

// TestConnectionsAreBounded checks that held connections are closed, the oldest first, and do not
// lock out the probe. They are idle, or have sent the beginning of a request.
func TestConnectionsAreBounded(t *testing.T) {
	const most, more = 64, 10
	for _, sends := range []string{"", "GET /healthz HTTP/1.1\r\nHost: "} {
		address := served(t)
		var held []net.Conn
		for range most + more {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, sends); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
		if status, err := get(t, "http://"+address+"/healthz", nil); status != http.StatusOK {
			t.Errorf("/healthz beside %d connections that sent %q: %d, %v", len(held), sends, status, err)
		}
		// ReadHeaderTimeout is 5 s. A connection that ends well before was closed at the limit.
		early := time.Now().Add(3 * time.Second)
		for i, c := range held[:more+1] {
			_ = c.SetReadDeadline(early)
			if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
				t.Errorf("connection %d of %d is still there: %v", i, len(held), err)
			}
		}
	}
}

func isTimeout(err error) bool {
	e, is := errors.AsType[net.Error](err)
	return is && e.Timeout()
}

func TestHeadersAreBounded(t *testing.T) {
	address := served(t)
	if status, err := get(t, "http://"+address+"/healthz", http.Header{"X": {strings.Repeat("x", 64<<10)}}); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 64 KiB: %d, %v; want 431", status, err)
	}
	if status, err := get(t, "http://"+address+"/healthz", http.Header{"X": {strings.Repeat("x", 8<<10)}}); status != http.StatusOK {
		t.Errorf("a header of 8 KiB: %d, %v; want 200", status, err)
	}
}
