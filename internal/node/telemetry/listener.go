package telemetry

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections is the maximum number of open connections.
const maxConnections = 64

// limitedListener is a listener with a limit of open connections. At the limit, it closes an old
// connection for each new one. Idle connections are closed before active ones, the oldest
// first. A listener that accepts no more connections would lock out the probe of /healthz:
// then any client that holds connections open causes a restart of the daemon.
type limitedListener struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open []*limitedConn // oldest first
}

type limitedConn struct {
	net.Conn
	listener *limitedListener
	active   bool // guarded by listener.mu
}

// Accept implements net.Listener.
func (b *limitedListener) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &limitedConn{Conn: c, listener: b}
	if old := b.add(conn); old != nil {
		_ = old.Close()
	}
	return conn, nil
}

// add adds a connection. It returns the connection that the caller must close, or nil.
func (b *limitedListener) add(c *limitedConn) (old *limitedConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.limit {
		i := max(slices.IndexFunc(b.open, func(c *limitedConn) bool { return !c.active }), 0)
		old = b.open[i]
		b.open = slices.Delete(b.open, i, i+1)
	}
	b.open = append(b.open, c)
	return old
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.open = slices.DeleteFunc(c.listener.open, func(o *limitedConn) bool { return o == c })
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

// noteState implements http.Server.ConnState.
func (b *limitedListener) noteState(c net.Conn, s http.ConnState) {
	if c, ours := c.(*limitedConn); ours {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.active = s == http.StateActive
	}
}
