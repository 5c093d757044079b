package limits

import (
	"context"
	"errors"
	"fmt"
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
