package limits

import (
	"errors"
	"io"
	"net/http"
)

// body counts the bytes of a body from their arrival until the handler returns.
type body struct {
	io.ReadCloser
	conn    *conn
	request *http.Request
	size    int64 // bytes that have arrived
	working int64 // bytes in guard.working
}

// Read implements io.Reader. The end of the body is returned when the handler may work on it.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	g := b.conn.guard
	if n > 0 {
		b.size += int64(n)
		b.count(b.size)
	}
	if errors.Is(err, io.EOF) && b.working == 0 {
		wanted := min(b.size, g.bodies.limit/2)
		// The context ends with the connection.
		if err := g.working.Acquire(b.request.Context(), wanted); err != nil {
			return n, err
		}
		b.working = wanted
	}
	return n, err
}

// count sets the size of the body, and makes it the youngest: the oldest one is a body that stalls.
func (b *body) count(size int64) {
	g := b.conn.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.bodies.remove(b.conn); size > 0 {
		g.bodies.add(b.conn, size)
	}
}

// release releases the memory of the body.
func (b *body) release() {
	b.count(0)
	b.conn.guard.working.Release(b.working)
}
