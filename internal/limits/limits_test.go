package limits_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/limits"
)

// serve starts a guarded server and returns its address.
func serve(t *testing.T, l limits.Limits, h http.HandlerFunc) string {
	t.Helper()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Peer = limits.Address
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l.Guard(inner, s)) }()
	t.Cleanup(func() {
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve = %v", err)
		}
	})
	return inner.Addr().String()
}

// dial connects from a loopback address.
func dial(t *testing.T, address, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a request, and reports whether the server answers it.
func ask(t *testing.T, c net.Conn) bool {
	t.Helper()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return false
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	n, err := c.Read(make([]byte, 4096))
	return n > 0 && err == nil
}

// awaitClose waits until the server closes a connection.
func awaitClose(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err := c.Read(make([]byte, 1))
	if e, ok := errors.AsType[net.Error](err); err == nil || ok && e.Timeout() {
		t.Errorf("the connection is still open: %v", err)
	}
}

func answerOK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

// TestPeerWithMostConnectionsLosesItsOldest checks that a flood closes neither the connection of
// another peer nor a connection with an answered request.
func TestPeerWithMostConnectionsLosesItsOldest(t *testing.T) {
	address := serve(t, limits.Limits{New: 4, Answered: 3}, answerOK)
	used, waiting := dial(t, address, "127.0.0.2"), dial(t, address, "127.0.0.3")
	if !ask(t, used) {
		t.Fatal("no answer")
	}
	flood := make([]net.Conn, 20)
	for i := range flood {
		flood[i] = dial(t, address, "127.0.0.2")
	}
	for _, c := range flood[:17] { // three of 127.0.0.2 and one of 127.0.0.3 remain
		awaitClose(t, c)
	}
	for name, c := range map[string]net.Conn{"used": used, "waiting": waiting, "youngest": flood[19]} {
		if !ask(t, c) {
			t.Errorf("the %s connection was closed", name)
		}
	}
}

// TestAnsweredConnectionsAreBounded checks that the connection whose last answer is oldest is
// closed.
func TestAnsweredConnectionsAreBounded(t *testing.T) {
	address := serve(t, limits.Limits{New: 1, Answered: 2}, answerOK)
	first, second, third := dial(t, address, "127.0.0.2"), net.Conn(nil), net.Conn(nil)
	for _, c := range []*net.Conn{&second, &third} {
		if !ask(t, first) {
			t.Fatal("no answer")
		}
		*c = dial(t, address, "127.0.0.2")
		if !ask(t, *c) {
			t.Fatal("no answer")
		}
	}
	awaitClose(t, second)
	if !ask(t, first) || !ask(t, third) {
		t.Error("a connection with a younger answer was closed")
	}
}

// TestUserOfClient checks the user of a process with another user, and of a socket that is closed.
func TestUserOfClient(t *testing.T) {
	if address := os.Getenv("LIMITS_DIAL"); address != "" { // the other process
		_, _ = io.Copy(io.Discard, dial(t, address, "127.0.0.1"))
		return
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	accepted := func() net.Conn {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	own := dial(t, l.Addr().String(), "127.0.0.1")
	server := accepted()
	defer server.Close()
	want := "user " + strconv.Itoa(os.Getuid())
	if got := limits.User(server); got != want {
		t.Errorf("User = %q; want %q", got, want)
	}
	_ = own.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got := limits.User(server); got != "unknown user" {
		t.Errorf("User of a closed socket = %q; want unknown user", got)
	}
	if os.Getuid() != 0 {
		t.Skip("only root can start a process of another user")
	}
	other := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestUserOfClient$")
	other.Env = append(os.Environ(), "LIMITS_DIAL="+l.Addr().String())
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	c := accepted()
	if got := limits.User(c); got != "user 65534" {
		t.Errorf("User of another process = %q; want user 65534", got)
	}
	_ = c.Close()
	if err := other.Wait(); err != nil {
		t.Error(err)
	}
}

// TestAddressOfClient checks that a network of IPv6 addresses is one peer.
func TestAddressOfClient(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
	} {
		if got := limits.Address(remote{address: net.ParseIP(address)}); got != want {
			t.Errorf("Address of %s = %q; want %q", address, got, want)
		}
	}
}

type remote struct {
	net.Conn
	address net.IP
}

func (r remote) RemoteAddr() net.Addr { return &net.TCPAddr{IP: r.address, Port: 1} }

const bodies = 512 << 10 // the limit of all bodies in the tests

// serveBodies starts a server that reads bodies. It returns the address, the results of reading
// bodies, and a channel on which handlers wait after they have read a body that begins with hold.
func serveBodies(t *testing.T) (address string, results chan error, hold chan struct{}) {
	t.Helper()
	results, hold = make(chan error, 10), make(chan struct{})
	address = serve(t, limits.Limits{New: 100, Answered: 100, Bodies: bodies}, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		results <- err
		if bytes.HasPrefix(body, []byte("hold")) {
			<-hold
		}
	})
	return address, results, hold
}

// post sends a request with a part of its body.
func post(t *testing.T, address, from, part string, size int) net.Conn {
	t.Helper()
	c := dial(t, address, from)
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, part); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBodiesAreBounded checks that the peer with most bytes of stalled bodies loses one, and that
// another peer's body is read.
func TestBodiesAreBounded(t *testing.T) {
	const size = bodies/4 + 1
	address, results, _ := serveBodies(t)
	for range 4 {
		post(t, address, "127.0.0.2", strings.Repeat("x", size), size+1)
	}
	if err := <-results; err == nil {
		t.Error("a stalled body was complete")
	}
	c := post(t, address, "127.0.0.3", strings.Repeat("x", size), size)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Errorf("the request of another peer: %v", err)
	}
}

// TestCompleteBodiesWait checks that a handler does not get its body while another one works on
// a large body, and that a client that leaves ends the wait.
func TestCompleteBodiesWait(t *testing.T) {
	const size = bodies/4 + 1
	address, results, hold := serveBodies(t)
	body := "hold" + strings.Repeat("x", size)
	first := post(t, address, "127.0.0.2", body, len(body))
	if err := <-results; err != nil {
		t.Fatal(err)
	}
	_ = post(t, address, "127.0.0.3", body, len(body)).Close()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("the second handler got %v; want %v", err, context.Canceled)
	}
	close(hold)
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
}
