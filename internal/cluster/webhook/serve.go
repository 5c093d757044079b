package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/singleflight"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/review"
	"github.com/cpupoold/cpupoold/internal/limits"
)

// Limits of the ports. Any pod of the cluster may reach them. docs/reference/boundaries.md states them.
//
// The servers of controller-runtime 0.25 have no limit of connections, no deadline for bodies,
// and headers of 1 MiB. Their options have no place for a listener.
const (
	// maxNew is the maximum number of connections without an answered request. An API server has
	// up to 200 requests that change objects (--max-mutating-requests-inflight), and each may need
	// a connection. A cluster often has three API servers.
	maxNew = 1024
	// maxAnswered is the maximum number of other connections. An API server keeps 25 idle ones
	// (client-go 0.37, idleConnsPerHost).
	maxAnswered  = 256
	maxBodies    = 8 << 20  // bytes of all reviews in work
	maxHeader    = 16 << 10 // bytes
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute // more than the 90 s of API servers
	endTimeout   = 10 * time.Second
)

// add adds a server with its limits to a manager. Without secure, the server has no TLS.
func add(ctx context.Context, m manager.Manager, o Options, name, address string, h http.Handler, secure *tls.Config) (net.Addr, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", name, err)
	}
	s := &http.Server{
		Handler:        h,
		MaxHeaderBytes: maxHeader,
		ReadTimeout:    readTimeout, // of the TLS handshake too
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		// Clients cause these messages, any number of them.
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	guarded := limits.Limits{New: maxNew, Answered: maxAnswered, Bodies: maxBodies, Peer: limits.Address}.Guard(l, s)
	if secure != nil {
		guarded = tls.NewListener(guarded, secure)
	}
	return l.Addr(), m.Add(&manager.Server{Name: name, Server: s, Listener: guarded, ShutdownTimeout: new(endTimeout)})
}

// metricsHandler serves /metrics.
func metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError, MaxRequestsInFlight: 2}))
	return mux
}

func probeHandler(ready healthz.Checker) http.Handler {
	mux := http.NewServeMux()
	for path, check := range map[string]*healthz.Handler{
		"/healthz": {Checks: map[string]healthz.Checker{"running": healthz.Ping}},
		"/readyz":  {Checks: map[string]healthz.Checker{"serving": ready}},
	} {
		mux.Handle(path, http.StripPrefix(path, check))
		mux.Handle(path+"/", http.StripPrefix(path, check))
	}
	return mux
}

// reviewHandler serves the reviews. The server of controller-runtime only adds its metrics.
func reviewHandler(o Options, c review.Cluster, w review.Workloads, count *counters) http.Handler {
	mux := http.NewServeMux()
	s := ctrlwebhook.NewServer(ctrlwebhook.Options{WebhookMux: mux})
	s.Register(podsPath, review.Pods(c, o.Priorities, count, o.Log))
	s.Register(resizePath, review.Resizes(c, o.Config.AllowUnaccounted, count, o.Log))
	s.Register(autoscalersPath, review.Autoscalers(c, w, count, o.Log))
	return mux
}

// reviewServer serves the reviews with TLS.
type reviewServer struct {
	options Options
	handler http.Handler
	address atomic.Pointer[net.TCPAddr] // nil until the server listens
	checked recent                      // of handshake
}

// start listens, and adds the server to a manager. The certificate exists.
func (s *reviewServer) start(m manager.Manager) error {
	dir := s.options.Config.CertificateDir
	certificate, err := certwatcher.New(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	address, err := add(context.Background(), m, s.options, "reviews", s.options.Config.ListenAddress, s.handler, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // an HTTP/2 connection has any number of requests in work
		GetCertificate: certificate.GetCertificate,
	})
	if err != nil {
		return err
	}
	if tcp, ok := address.(*net.TCPAddr); ok {
		s.address.Store(tcp)
	}
	return m.Add(certificate)
}

// check returns an error unless the server completes a TLS handshake, or has completed one in the
// last second.
func (s *reviewServer) check(ctx context.Context) error {
	if s.address.Load() == nil {
		return errors.New("reviews are not served yet")
	}
	return s.checked.get(ctx, s.handshake)
}

func (s *reviewServer) handshake() error {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: readTimeout}, Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // it asks this program
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	c, err := d.DialContext(ctx, "tcp", s.address.Load().String())
	if err != nil {
		return fmt.Errorf("reviews are not served: %w", err)
	}
	return c.Close()
}

// recent keeps the result of a check for a second. Any pod may ask for it any number of times.
type recent struct {
	group  singleflight.Group // has one call at a time, which owns the other fields
	at     time.Time
	result error
}

// get returns the result of a check, or an error if ctx ends first. The check goes on then: others
// may wait for it.
func (r *recent) get(ctx context.Context, check func() error) error {
	const kept = time.Second
	done := r.group.DoChan("", func() (any, error) {
		if r.at.IsZero() || time.Since(r.at) >= kept {
			r.result = check()
			r.at = time.Now()
		}
		return nil, r.result
	})
	select {
	case answer := <-done:
		return answer.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type counters struct {
	reviews, warnings        *prometheus.CounterVec
	switches, latches, lacks *prometheus.GaugeVec
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		reviews: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_reviews_total", Help: "Reviews by webhook (pods, resize, autoscalers) and result (unchanged, changed, refused, failed).",
		}, []string{"webhook", "result"}),
		warnings: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_warnings_total", Help: "Things that pods asked for and did not get, by reason.",
		}, []string{"reason"}),
		switches: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_on", Help: "1 if pods get the resource at the moment, by resource.",
		}, []string{"resource"}),
		latches: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_latched", Help: "1 if the latch of the resource is closed, by resource.",
		}, []string{"resource"}),
		lacks: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_lacking_nodes", Help: "Schedulable nodes that keep the latch of the resource open, or would if it were open, by resource.",
		}, []string{"resource"}),
	}
	for _, webhook := range []string{review.OfPods, review.OfResizes, review.OfAutoscalers} {
		for _, result := range review.Results() {
			c.reviews.WithLabelValues(webhook, string(result))
		}
	}
	for _, reason := range admission.Reasons() {
		c.warnings.WithLabelValues(string(reason))
	}
	return c
}

// Reviewed implements review.Counter.
func (c *counters) Reviewed(name string, result review.Result) {
	c.reviews.WithLabelValues(name, string(result)).Inc()
}

// Warned implements review.Counter.
func (c *counters) Warned(reason admission.Reason) {
	c.warnings.WithLabelValues(string(reason)).Inc()
}
