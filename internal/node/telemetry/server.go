package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options say what a Server shows.
type Options struct {
	// View returns the state after the last pass, nil before the first. It is
	// called from several goroutines.
	View func() *View
	// Heartbeat returns when the daemon's loop was last seen alive.
	Heartbeat func() time.Time
	// MaxSilence is the age of the heartbeat beyond which /healthz fails.
	MaxSilence time.Duration
	// Proc and Cgroups are where /proc and the cgroup2 file system are mounted.
	Proc, Cgroups string
	Build         Build
	// Log gets what cannot be measured, once per scrape.
	Log *slog.Logger
}

// Build says what the daemon was built from.
type Build struct {
	Version, Revision, Go string
}

// Server serves /metrics, /healthz and /readyz.
type Server struct {
	http.Handler
}

// New returns a server; CPU times per pool count from now on.
func New(o Options) (*Server, error) {
	c, err := newCollector(o)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewPedanticRegistry()
	for _, col := range []prometheus.Collector{c, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := registry.Register(col); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
		// A scrape reads files of every container: a herd of them must not cost
		// the node more than it shows.
		MaxRequestsInFlight: 2,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, health(o)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, readiness(o)) })
	return &Server{mux}, nil
}

// maxHeader bounds the header of a request, in bytes.
const maxHeader = 16 << 10

// Serve answers requests until ctx is done, then lets those in progress finish.
// It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	const grace = 2 * time.Second
	all := &bounded{Listener: l, max: maxConnections}
	srv := &http.Server{
		Handler:           s,
		ConnState:         all.note,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		stopped <- srv.Shutdown(patience)
	})
	err := srv.Serve(all)
	if !errors.Is(err, http.ErrServerClosed) {
		stop()
		return fmt.Errorf("serve metrics on %s: %w", l.Addr(), err)
	}
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop serving metrics: %w", err)
	}
	return nil
}

// health is nil while the loop is alive.
func health(o Options) error {
	if age := time.Since(o.Heartbeat()); age > o.MaxSilence {
		return fmt.Errorf("the loop was last seen alive %s ago; it should be at most %s", age.Round(time.Millisecond), o.MaxSilence)
	}
	return nil
}

// readiness is nil once the first pass is over. What it could not do is in the
// metrics: one bad container must not hold up the rollout of all nodes.
func readiness(o Options) error {
	if v := o.View(); v == nil || !v.Ready {
		return errors.New("the first pass is not over yet")
	}
	return nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
