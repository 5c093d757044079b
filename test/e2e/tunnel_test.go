//go:build e2e

package e2e_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm"
)

// serveTunnel takes the API server's connections to pods, each of which begins with an HTTP request CONNECT, and returns the path of the socket
// where it asks for them.
func serveTunnel(t *testing.T, machines []*machine) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "tunnel")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		far, err := dial(r.Context(), machines, r.URL.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer far.Close()
		near, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer near.Close()
		if _, err := io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n"); err == nil {
			pass(near, buffered, far)
		}
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close() // closes l
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve the API server's connections: %v", err)
		}
	})
	return socket
}

// listenInGuest passes connections to an address in the guest on to one of this machine.
func listenInGuest(t *testing.T, m *vm.VM, inGuest, address string) {
	t.Helper()
	l, err := m.Listen(inGuest)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			far, err := l.Accept()
			if err != nil {
				return // the guest has gone, or the test is over
			}
			go func() {
				defer far.Close()
				near, err := net.Dial("tcp", address)
				if err != nil {
					return
				}
				defer near.Close()
				pass(near, near, far)
			}()
		}
	}()
}

// pass copies both ways until one of them ends.
func pass(near net.Conn, from io.Reader, far net.Conn) {
	var once sync.Once
	end := func() {
		near.Close()
		far.Close()
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		once.Do(end)
	})
	_, _ = io.Copy(far, from)
	once.Do(end)
	back.Wait()
}

// freePort returns an unused port.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
