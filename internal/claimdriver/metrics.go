package claimdriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/cpupoold/cpupoold/internal/limits"
)

type counters struct {
	registry   *prometheus.Registry
	calls      *prometheus.HistogramVec
	errors     *prometheus.CounterVec
	orphans    prometheus.Counter
	registered atomic.Bool
}

func newCounters(registry *prometheus.Registry, w *watcher) *counters {
	c := &counters{
		registry: registry,
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cpupool_dra_call_duration_seconds", Help: "Duration of the kubelet's calls for one claim, by call (prepare, unprepare) and result (ok, error).",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25},
		}, []string{"call", "result"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_dra_background_errors_total", Help: "Errors outside of the kubelet's calls, by part (status, cleanup).",
		}, []string{"part"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "cpupool_dra_orphans_ended_total", Help: "Claims that ended without a call of the kubelet, because no pod can use them.",
		}),
	}
	gauge := func(name, help string, value func(node) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			now, _ := w.now()
			return value(now)
		})
	}
	for _, call := range []string{"prepare", "unprepare"} {
		for _, result := range []string{"ok", "error"} {
			c.calls.WithLabelValues(call, result)
		}
	}
	for _, part := range []string{"status", "cleanup"} {
		c.errors.WithLabelValues(part)
	}
	c.registry.MustRegister(c.calls, c.errors, c.orphans, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		gauge("cpupool_dra_registered", "1 if the kubelet has registered the plugin.", func(node) float64 { return number(c.registered.Load()) }),
		gauge("cpupool_dra_daemon_up", "1 if the daemon has answered within 30 seconds.", func(n node) float64 { return number(!n.isAway()) }),
		gauge("cpupool_dra_ready", "1 if the daemon recognises containers with claims.", func(n node) float64 { return number(n.claims != nil && n.claims.Ready && !n.isAway()) }),
		gauge("cpupool_dra_claims", "Claims that are prepared on the node.", func(n node) float64 {
			if n.claims == nil {
				return 0
			}
			return float64(len(n.claims.Claims))
		}),
		gauge("cpupool_dra_faulty_claims", "Prepared claims with problems or with CPUs that are offline.", func(n node) float64 {
			faulty := 0
			if n.claims != nil {
				for i := range n.claims.Claims {
					if c := &n.claims.Claims[i]; len(c.Problems) > 0 || !c.Away.IsEmpty() {
						faulty++
					}
				}
			}
			return float64(faulty)
		}),
	)
	return c
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (c *counters) call(name string, began time.Time, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	c.calls.WithLabelValues(name, result).Observe(time.Since(began).Seconds())
}

func (c *counters) failed(part string) { c.errors.WithLabelValues(part).Inc() }

// noteRegistration is an interceptor that notes the kubelet's answer to the registration.
func (c *counters) noteRegistration(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if s, is := request.(*registerapi.RegistrationStatus); is {
		c.registered.Store(s.PluginRegistered)
	}
	return handle(ctx, request)
}

// maxSilence is the maximum time without a question to the daemon.
const maxSilence = 2 * time.Minute

func (d *driver) serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.count.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelWarn), MaxRequestsInFlight: 2,
	}))
	mux.HandleFunc("GET /healthz", limits.Probe(func() error {
		if age := time.Since(time.Unix(0, d.watch.tried.Load())); age > maxSilence {
			return fmt.Errorf("the daemon was last asked %s ago", age.Round(time.Second))
		}
		return nil
	}))
	// A node without a daemon must not stop the rollout of the driver, so the daemon does not count.
	mux.HandleFunc("GET /readyz", limits.Probe(func() error {
		if !d.count.registered.Load() {
			return errors.New("the kubelet has not registered the plugin yet")
		}
		return nil
	}))
	s := &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(d.Log.Handler(), slog.LevelDebug)}
	return limits.Limits{Peer: limits.Address}.ServeMetrics(ctx, l, s)
}
