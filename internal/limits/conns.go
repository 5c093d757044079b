package limits

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Limits are the limits of a server. A connection has one request at a time, so the limits of
// connections bound the requests in work too.
type Limits struct {
	// New is the maximum number of connections on which the server has not answered a request.
	// Handshakes, headers and bodies that stall hold these.
	New int
	// Answered is the maximum number of other connections. They have their own limit, so that
	// new connections do not close the connection of a client that uses it.
	Answered int
	// Bodies is the maximum number of bytes of all bodies together. Handlers run at the same
	// time while their complete bodies have at most half of it: decoding takes a multiple of
	// a body. A larger body waits until it is alone. 0: handlers read no bodies.
	Bodies int64
	// Peer returns the peer of a connection.
	Peer func(net.Conn) string
}

// Guard returns a listener for a server that keeps the limits. It changes the server's
// ConnContext and Handler. A listener for TLS belongs around the returned one. It must not
// negotiate HTTP/2.
func (l Limits) Guard(inner net.Listener, s *http.Server) net.Listener {
	g := &guard{
		Listener: inner, peer: l.Peer,
		fresh: crowd{limit: int64(l.New)}, answered: crowd{limit: int64(l.Answered)}, bodies: crowd{limit: l.Bodies},
		working: semaphore.NewWeighted(l.Bodies / 2),
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn()
		}
		return context.WithValue(ctx, connKey{}, c)
	}
	next := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		defer c.noteAnswer()
		if l.Bodies > 0 {
			b := &body{ReadCloser: r.Body, conn: c, request: r}
			defer b.release()
			counted := *r
			counted.Body, r = b, &counted
		}
		next.ServeHTTP(w, r)
	})
	return g
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

type guard struct {
	net.Listener
	peer    func(net.Conn) string
	working *semaphore.Weighted // bytes of bodies whose handlers work on them

	mu                      sync.Mutex
	fresh, answered, bodies crowd
}

// conn is a connection. Until it is closed, it is fresh or answered.
type conn struct {
	net.Conn
	guard *guard
	peer  string
}

// Accept implements net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	inner, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{inner, g, g.peer(inner)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fresh.add(c, 1)
	return c, nil
}

// noteAnswer moves a connection to the answered ones, as the youngest.
func (c *conn) noteAnswer() {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.fresh.remove(c) || g.answered.remove(c) { // otherwise it was closed at a limit
		g.answered.add(c, 1)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	for _, all := range []*crowd{&c.guard.fresh, &c.guard.answered, &c.guard.bodies} {
		all.remove(c)
	}
	c.guard.mu.Unlock()
	return c.Conn.Close()
}

// abort closes a connection at a limit. The kernel drops the data that the client has not read,
// and does not keep the connection until the client closes it.
func (c *conn) abort() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Conn.Close()
}
