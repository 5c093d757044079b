package limits

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// ServeMetrics serves metrics and probes as [Serve] does. It sets the timeouts of the server and the
// numbers of connections. Any client can open the port, and reads no more than the metrics.
func (l Limits) ServeMetrics(ctx context.Context, inner net.Listener, s *http.Server) error {
	s.MaxHeaderBytes = 16 << 10
	s.ReadTimeout, s.WriteTimeout, s.IdleTimeout = 5*time.Second, 30*time.Second, 2*time.Minute
	l.New, l.Answered = 256, 64
	return Serve(ctx, "metrics on "+inner.Addr().String(), l.Guard(inner, s), s)
}

// Probe returns a handler that answers 503 with the error of check, and ok without an error.
func Probe(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
