package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// served starts a server and returns its address.
func served(t *testing.T) string {
	t.Helper()
	n := newNode(t)
	n.beat = time.Now().Add(time.Hour) // a busy machine can need minutes for the requests of a test
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

// TestProbesSurviveFlood checks that each probe of root is answered while many other users open
// connections without end, one connection each. The connections are idle, or have sent the beginning of a request.
// Each probe is slow: it sends its request after more new connections than the limit.
func TestProbesSurviveFlood(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give sockets to other users")
	}
	// The server's deadline for a request is 5 s. A probe that waits for a second meets it on a
	// busy machine too.
	const probes, longest = 60, time.Second
	address := served(t)
	flood := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestFlood$")
	flood.Env = append(os.Environ(), "FLOOD_ADDRESS="+address)
	var closed counter
	flood.Stdout = &closed
	if err := flood.Start(); err != nil {
		t.Fatal(err)
	}
	nodefixture.Eventually(t, "the server closes connections", func() bool { return closed.Load() > 0 })
	failed := 0
	for range probes {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		// The first report may be an old one. With two more, the server has closed as many
		// connections as there are, so some of them are younger than the probe's.
		now := closed.Load()
		nodefixture.Within(longest, func() bool { return closed.Load() >= now+3 })
		_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		answer, readErr := io.ReadAll(c)
		_ = c.Close()
		if err := errors.Join(err, readErr); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			failed++
			t.Logf("answer %q, %v", answer, err)
		}
	}
	if failed > 0 {
		t.Errorf("%d of %d probes failed", failed, probes)
	}
	_ = flood.Process.Kill()
	_ = flood.Wait()
	if s, ok := flood.ProcessState.Sys().(syscall.WaitStatus); !ok || !s.Signaled() {
		t.Errorf("the flood ended early: %v", flood.ProcessState)
	}
}

// counter counts the bytes that it gets.
type counter struct{ atomic.Int64 }

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	c.Add(int64(len(p)))
	return len(p), nil
}

// floodSize is the number of connections in the flood. It is above the limit of the server, 256.
const floodSize = 272

// TestFlood checks that the server accepts connections. It runs as a process of
// TestProbesSurviveFlood until it is killed. Each connection is of another user. It opens each one
// again when the server closes it, and writes a byte for each floodSize/2 closed ones.
func TestFlood(t *testing.T) {
	address := os.Getenv("FLOOD_ADDRESS")
	if address == "" {
		t.Skip("TestProbesSurviveFlood starts it")
	}
	var closed atomic.Int64
	var all sync.WaitGroup
	for i := range floodSize {
		of := func(_, _ string, c syscall.RawConn) error { // the kernel returns the owner of the socket
			var owned error
			err := c.Control(func(fd uintptr) { owned = syscall.Fchown(int(fd), 1000+i, -1) })
			return errors.Join(err, owned)
		}
		all.Go(func() {
			for {
				c, err := (&net.Dialer{Control: of}).DialContext(t.Context(), "tcp", address)
				if errors.Is(err, syscall.ECONNRESET) {
					continue // closed at the limit
				}
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: ")
				}
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				if closed.Add(1)%(floodSize/2) == 0 {
					_, _ = os.Stdout.WriteString(".")
				}
			}
		})
	}
	all.Wait()
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
