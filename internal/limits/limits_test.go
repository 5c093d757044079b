package limits_test

import (
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
	if l.Peer == nil {
		l.Peer = limits.Address
	}
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

// serveWork starts a server with a limit of 16 connections. It returns a function that sends a
// request and waits until the request is in work, and a function that ends the work.
func serveWork(t *testing.T) (address string, work func(from string) net.Conn, end func()) {
	t.Helper()
	begun, ended := make(chan struct{}, 100), make(chan struct{})
	address = serve(t, limits.Limits{New: 16, Answered: 16, Bodies: 1 << 20}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		begun <- struct{}{}
		<-ended
		answerOK(w, r)
	})
	return address, func(from string) net.Conn {
		c := post(t, address, from, "x", 1)
		<-begun
		return c
	}, func() { close(ended) }
}

// TestRequestsInWorkStayOpen checks that the peer with the most connections keeps its requests in
// work while other peers stall.
func TestRequestsInWorkStayOpen(t *testing.T) {
	address, work, end := serveWork(t)
	busy := make([]net.Conn, 4)
	for i := range busy {
		busy[i] = work("127.0.0.2")
	}
	stalled := make([]net.Conn, 16)
	for i := range stalled { // two of each peer
		stalled[i] = post(t, address, fmt.Sprintf("127.0.1.%d", 1+i%8), "x", 2)
	}
	for _, c := range stalled[:4] {
		awaitClose(t, c)
	}
	end()
	for i, c := range busy {
		if n, err := c.Read(make([]byte, 4096)); n == 0 {
			t.Errorf("request %d in work: %v", i, err)
		}
	}
}

// TestRequestsInWorkDoNotLockOut checks that a peer with only requests in work does not close the
// connections of others.
func TestRequestsInWorkDoNotLockOut(t *testing.T) {
	address, work, end := serveWork(t)
	first := dial(t, address, "127.0.0.3")
	busy := make([]net.Conn, 15)
	for i := range busy {
		busy[i] = work("127.0.0.2")
	}
	last := dial(t, address, "127.0.0.4")
	awaitClose(t, busy[0])
	end()
	if !ask(t, first) || !ask(t, last) {
		t.Error("requests in work closed the connection of another peer")
	}
}

// TestProtectedPeer checks that peers with one connection each close none of the protected peer,
// and that the protected peer has the limit too.
func TestProtectedPeer(t *testing.T) {
	address := serve(t, limits.Limits{New: 2, Answered: 2, Protected: "127.0.0.2"}, answerOK)
	probe := dial(t, address, "127.0.0.2")
	for i := range 5 {
		dial(t, address, fmt.Sprintf("127.0.1.%d", i+1))
	}
	if !ask(t, probe) {
		t.Error("other peers closed the connection of the protected peer")
	}
	oldest := dial(t, address, "127.0.0.2")
	for range 2 {
		dial(t, address, "127.0.0.2")
	}
	awaitClose(t, oldest)
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
	user := limits.Users()
	want := "user " + strconv.Itoa(os.Getuid())
	if got := user(server); got != want {
		t.Errorf("user = %q; want %q", got, want)
	}
	_ = own.Close()
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	if got := user(server); got != "unknown user" {
		t.Errorf("user of a closed socket = %q; want unknown user", got)
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
	if got := user(c); got != "user 65534" {
		t.Errorf("user of another process = %q; want user 65534", got)
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

// serveBodies starts a server that reads bodies. It returns the address and the results of reading.
func serveBodies(t *testing.T) (address string, results chan error) {
	t.Helper()
	results = make(chan error, 10)
	address = serve(t, limits.Limits{New: 100, Answered: 100, Bodies: bodies}, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		results <- err
	})
	return address, results
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
	address, results := serveBodies(t)
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

// TestUnreadAnswersAreBounded checks that the peer with most bytes of unread answers loses one.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const size = 32 << 20 // more than the buffers of sockets
	large, results := make([]byte, size), make(chan error, 3)
	address := serve(t, limits.Limits{New: 10, Answered: 10, Bodies: 2 * size}, func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(large)
		results <- err
	})
	for range 3 {
		post(t, address, "127.0.0.2", "x", 1)
	}
	select {
	case err := <-results:
		if err == nil {
			t.Error("an answer was read")
		}
	case <-time.After(time.Minute):
		t.Error("no connection was closed")
	}
}
