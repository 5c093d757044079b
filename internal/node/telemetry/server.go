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

	"github.com/cpupoold/cpupoold/internal/limits"
)

// Options configures a Server.
type Options struct {
	// View returns the state after the last pass, or nil before. It is called concurrently.
	View func() *View
	// Heartbeat returns the time of the event loop's last sign of activity.
	Heartbeat func() time.Time
	// MaxSilence is the age of the heartbeat beyond which /healthz fails.
	MaxSilence time.Duration
	// Proc and Cgroups are the mount points of /proc and of the cgroup2 file system.
	Proc, Cgroups string
	Build         Build
	// Log receives the values that cannot be read, once per scrape.
	Log *slog.Logger
}

// Build holds the versions from which the daemon was built.
type Build struct {
	Version, Revision, Go string
}

// Server serves /metrics, /healthz and /readyz.
type Server struct {
	http.Handler
}

// New returns a Server. The CPU times of pools count from this call on.
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
		// A scrape reads files of every container. Many scrapes at once must not use more CPU
		// time than they measure.
		MaxRequestsInFlight: 2,
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, health(o)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, readiness(o)) })
	return &Server{mux}, nil
}

// Limits of the port. Any user of the host can open it. One user's connections do not close the
// connections of another: without probes, the kubelet restarts the daemon.
const (
	maxNew      = 256      // connections without an answered request
	maxAnswered = 64       // other connections
	maxHeader   = 16 << 10 // bytes
	readTimeout = 5 * time.Second
)

// Serve answers requests until ctx is done, completes those in progress, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:        s,
		MaxHeaderBytes: maxHeader,
		ReadTimeout:    readTimeout,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute,
	}
	// The kubelet is a process of root. Many users with a connection each must not close its probe.
	guarded := limits.Limits{New: maxNew, Answered: maxAnswered, Peer: limits.Users(), Protected: limits.Root}.Guard(l, srv)
	return limits.Serve(ctx, "metrics on "+l.Addr().String(), guarded, srv)
}

func health(o Options) error {
	if age := time.Since(o.Heartbeat()); age > o.MaxSilence {
		return fmt.Errorf("the event loop was last active %s ago; the limit is %s", age.Round(time.Millisecond), o.MaxSilence)
	}
	return nil
}

// readiness returns an error until the first pass is over. Failures of that pass are shown by
// metrics only: one bad container must not stop the rollout on all nodes.
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
