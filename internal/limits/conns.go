package limits

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Limits are the limits of a server. A connection has one request at a time, so the limits of
// connections bound the requests in work too.
type Limits struct {
	// New is the maximum number of connections on which the server has not answered a request.
	// Handshakes, headers and bodies that stall hold these.
	New int
	// Answered is the maximum number of other connections. They have their own limit, so that
	// connections without an answered request do not close the connection of a client that uses it.
	Answered int
	// Bodies is the maximum number of bytes of all bodies and unread answers together. It does not
	// bound what handlers make of them. 0: handlers read no bodies, and answers do not count.
	Bodies int64
	// Peer returns the peer of a connection.
	Peer func(net.Conn) string
	// Protected is a peer that loses a connection only if no other peer has one. Empty: none.
	Protected string
}

// Guard returns a listener for a server that keeps the limits. It changes the server's
// ConnContext and Handler. A listener for TLS belongs around the returned one. It must not
// negotiate HTTP/2.
func (l Limits) Guard(inner net.Listener, s *http.Server) net.Listener {
	g := &guard{
		Listener: inner, peer: l.Peer,
		unanswered: connLimit{limit: int64(l.New), protected: l.Protected},
		answered:   connLimit{limit: int64(l.Answered), protected: l.Protected},
		bodies:     connLimit{limit: l.Bodies, protected: l.Protected},
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
		if l.Bodies == 0 || r.Body == http.NoBody {
			c.noteWork(true)
		} else {
			counted := *r
			counted.Body = &body{ReadCloser: r.Body, conn: c}
			r = &counted
		}
		next.ServeHTTP(&answer{w, c}, r)
	})
	return g
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

type guard struct {
	net.Listener
	peer func(net.Conn) string

	mu                           sync.Mutex
	unanswered, answered, bodies connLimit
}

// conn is a connection. Until it is closed, it is unanswered or answered.
type conn struct {
	net.Conn
	guard   *guard
	peer    string
	working bool // its request is complete, and the handler has not begun to answer
}

// Accept implements net.Listener.
func (g *guard) Accept() (net.Conn, error) {
	inner, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, guard: g, peer: g.peer(inner)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unanswered.add(c, 1)
	return c, nil
}

// noteWork notes whether the connection has a request in work.
func (c *conn) noteWork(working bool) {
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	c.working = working
}

// count sets the bytes of the connection's body or answer, and makes the connection the youngest:
// the oldest one has a body or an answer that stalls.
func (c *conn) count(size int64) {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bodies.remove(c); size > 0 && g.bodies.limit > 0 {
		g.bodies.add(c, size)
	}
}

// noteAnswer moves a connection to the answered ones, as the youngest.
func (c *conn) noteAnswer() {
	g := c.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	g.bodies.remove(c)
	c.working = false
	if g.unanswered.remove(c) || g.answered.remove(c) { // otherwise it was closed at a limit
		g.answered.add(c, 1)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.guard.mu.Lock()
	for _, all := range []*connLimit{&c.guard.unanswered, &c.guard.answered, &c.guard.bodies} {
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

// A connLimit holds the connections that share a limit, oldest first. The guard has a lock.
type connLimit struct {
	limit, total int64
	members      []member
	protected    string // a peer whose connections are closed last
}

type member struct {
	*conn
	weight int64
}

// add adds a connection as the youngest. Then it closes connections until the rest is within the
// limit.
func (l *connLimit) add(of *conn, weight int64) {
	l.members = append(l.members, member{of, weight})
	l.total += weight
	for l.total > l.limit {
		v := l.next()
		l.remove(v.conn)
		v.abort()
	}
}

// next returns the connection to close: of the peer with the most connections, the oldest one
// without a request in work. Requests in work do not count up to a quarter of the limit: an API
// server with many reviews in work is not the peer with the most connections. Above it they count.
// Otherwise a peer with only requests in work would close the connections of all others.
func (l *connLimit) next() member {
	type load struct{ all, working int64 }
	peers := map[string]load{}
	for _, m := range l.members {
		p := peers[m.peer]
		if p.all += m.weight; m.working {
			p.working += m.weight
		}
		peers[m.peer] = p
	}
	return slices.MinFunc(l.members, func(a, b member) int { // the oldest of equal ones
		p, q := peers[a.peer], peers[b.peer]
		return cmp.Or(
			first(a.peer != l.protected, b.peer != l.protected),
			cmp.Compare(q.all-min(q.working, l.limit/4), p.all-min(p.working, l.limit/4)),
			first(!a.working, !b.working),
		)
	})
}

// first returns the order of two members: one for which a condition holds is before another one.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// remove removes a connection. It reports whether the connection was a member.
func (l *connLimit) remove(of *conn) bool {
	i := slices.IndexFunc(l.members, func(m member) bool { return m.conn == of })
	if i < 0 {
		return false
	}
	l.total -= l.members[i].weight
	l.members = slices.Delete(l.members, i, i+1)
	return true
}
