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
	mux.HandleFunc("GET /healthz", limits.Probe(o.health))
	mux.HandleFunc("GET /readyz", limits.Probe(o.readiness))
	return &Server{mux}, nil
}

// Serve answers requests until ctx is done, completes those in progress, and closes l. Any user of
// the host can open the port. Many users with a connection each must not close the probe of the
// kubelet, which is a process of root: without probes, the kubelet restarts the daemon.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return limits.Limits{Peer: limits.Users(), Protected: limits.Root}.ServeMetrics(ctx, l, &http.Server{Handler: s})
}

func (o Options) health() error {
	if age := time.Since(o.Heartbeat()); age > o.MaxSilence {
		return fmt.Errorf("the event loop was last active %s ago; the limit is %s", age.Round(time.Millisecond), o.MaxSilence)
	}
	return nil
}

// readiness returns an error until the first pass is over. Failures of that pass are shown by
// metrics only: one bad container must not stop the rollout on all nodes.
func (o Options) readiness() error {
	if v := o.View(); v == nil || !v.Ready {
		return errors.New("the first pass is not over yet")
	}
	return nil
}
