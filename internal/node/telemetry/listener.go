package telemetry

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxConnections is how many connections the server has at once.
const maxConnections = 64

// bounded is a listener that closes an old connection for each that comes when there are
// as many as it takes: one that waits for a request before one that has begun to ask. To
// accept no more, as others do, would lock out the probe of /healthz, and the daemon
// would be restarted because somebody holds connections open.
type bounded struct {
	net.Listener
	max int

	mu   sync.Mutex
	open []*boundConn // the oldest first
}

type boundConn struct {
	net.Conn
	of     *bounded
	active bool // guarded by of.mu
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &boundConn{Conn: c, of: b}
	if old := b.enter(conn); old != nil {
		_ = old.Close() // whoever it was has had his time
	}
	return conn, nil
}

// enter adds a connection and returns the one that has to go for it, if any.
func (b *bounded) enter(c *boundConn) (old *boundConn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) >= b.max {
		i := max(slices.IndexFunc(b.open, func(c *boundConn) bool { return !c.active }), 0)
		old = b.open[i]
		b.open = slices.Delete(b.open, i, i+1)
	}
	b.open = append(b.open, c)
	return old
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.of.mu.Lock()
	c.of.open = slices.DeleteFunc(c.of.open, func(o *boundConn) bool { return o == c })
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// note is for http.Server.ConnState.
func (b *bounded) note(c net.Conn, s http.ConnState) {
	if c, ours := c.(*boundConn); ours {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.active = s == http.StateActive
	}
}
