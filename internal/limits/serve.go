package limits

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// shutdownTimeout is the maximum time for the requests in progress when a server stops.
const shutdownTimeout = 2 * time.Second

// Serve answers requests on l until ctx ends, and waits up to two seconds for the requests in
// progress. It closes l. what names the server in errors.
func Serve(ctx context.Context, what string, l net.Listener, srv *http.Server) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		timeout, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		stopped <- srv.Shutdown(timeout)
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve %s: %w", what, err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving %s: %w", what, err)
	}
	return nil
}

// body counts the bytes of a body from their arrival until the handler answers.
type body struct {
	io.ReadCloser
	conn *conn
	size int64 // bytes that have arrived
}

// Read implements io.Reader. At the end of the body, the request is in work.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.size += int64(n)
		b.conn.count(b.size)
	}
	if errors.Is(err, io.EOF) {
		b.conn.noteWork(true)
	}
	return n, err
}

// answer is the ResponseWriter of a request. When the handler answers, the request is no longer
// in work: the client may not read the answer. Then the bytes of the answer count instead of the
// bytes of the body.
type answer struct {
	http.ResponseWriter
	conn *conn
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	a.conn.noteWork(false)
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.conn.noteWork(false)
	a.conn.count(int64(len(p)))
	return a.ResponseWriter.Write(p)
}

// Unwrap lets an http.ResponseController find the methods of the server's ResponseWriter.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
