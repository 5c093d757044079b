package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cpupoold/cpupoold/internal/cluster/review"
)

// Names of objects in deploy/webhook.
const (
	objectName = "cpupool-webhook" // the service and both webhook configurations
	secretName = "cpupool-webhook-tls"
)

// Paths of the reviews.
const (
	podsPath        = "/mutate-pods"
	resizePath      = "/validate-resize"
	autoscalersPath = "/warn-autoscalers"
)

// Options configures Run.
type Options struct {
	Config Config
	// Namespace is the namespace of the program, its Secret and its ConfigMap.
	Namespace string
	REST      *rest.Config
	Log       *slog.Logger
	// Priorities chooses priority classes of pods. Nil: pods keep their classes.
	Priorities review.Priorities
	// Wait are closed when reviews of pods may begin. Without any, they may begin at once.
	Wait []<-chan struct{}
	// Also add other runnables to the manager. Its scheme has the types of core, policy and
	// admissionregistration.
	Also []func(manager.Manager) error
}

// Run serves until ctx is done, and then for the drain period. It listens when it knows the
// cluster and has a certificate.
func Run(ctx context.Context, o Options) error {
	ctrllog.SetLogger(logr.FromSlogHandler(o.Log.Handler()))
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, admissionregistrationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("make scheme: %w", err)
		}
	}
	latches := client.ObjectKey{Namespace: o.Namespace, Name: latchesName}
	m, err := manager.New(o.REST, manager.Options{
		Scheme:                 scheme,
		Logger:                 logr.FromSlogHandler(o.Log.Handler()),
		Cache:                  cacheOptions(latches, o.Config.switches()),
		Metrics:                metricsserver.Options{BindAddress: "0"}, // see serve.go
		HealthProbeBindAddress: "0",
	})
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	count := newCounters(metrics.Registry)
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(o.REST, m.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	follow := &state{
		switches: o.Config.switches(), latches: latches,
		cache: m.GetCache(), writer: m.GetClient(), live: m.GetAPIReader(), version: discover.ServerVersionWithContext, count: count, log: o.Log,
		known: make(chan struct{}),
	}
	certified, err := certificates(m, o)
	if err != nil {
		return err
	}
	targets, err := newWorkloads(o.REST)
	if err != nil {
		return err
	}
	server := &reviewServer{options: o, handler: reviewHandler(o, follow, targets, count)}
	var draining atomic.Bool
	probes := probeHandler(func(r *http.Request) error {
		if draining.Load() {
			return errors.New("draining")
		}
		return server.check(r.Context())
	})
	_, metricsErr := add(ctx, m, o, "metrics", o.Config.MetricsAddress, metricsHandler(), nil)
	_, probesErr := add(ctx, m, o, "probes", o.Config.ProbeAddress, probes, nil)
	errs := []error{
		metricsErr, probesErr,
		m.Add(follow),
		m.Add(when(func() error { return server.start(m) }, append(o.Wait, follow.known, certified)...)),
	}
	for _, also := range o.Also {
		errs = append(errs, also(m))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}

	// API servers and proxies send requests for a while after the signal.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		draining.Store(true)
		o.Log.Info("draining", "period", o.Config.DrainPeriod.String())
		select {
		case <-time.After(o.Config.DrainPeriod):
		case <-serving.Done():
		}
		cancel()
	})
	defer stop()
	return m.Start(serving)
}

// certificates returns a channel that is closed when the certificate exists. With
// CertificatesSelf, it also renews the certificate from then on.
func certificates(m manager.Manager, o Options) (<-chan struct{}, error) {
	ready := make(chan struct{})
	if o.Config.Certificates == CertificatesFiles {
		close(ready)
		return ready, nil
	}
	name := objectName + "." + o.Namespace + ".svc"
	err := rotator.AddRotator(overlapping{m}, &rotator.CertRotator{
		SecretKey:      types.NamespacedName{Namespace: o.Namespace, Name: secretName},
		CertDir:        o.Config.CertificateDir,
		CAName:         objectName + "-ca",
		CAOrganization: "cpupoold",
		DNSName:        name,
		IsReady:        ready,
		FieldOwner:     objectName,
		Webhooks: []rotator.WebhookInfo{
			{Name: objectName, Type: rotator.Mutating},
			{Name: objectName, Type: rotator.Validating},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("rotate certificates: %w", err)
	}
	return ready, nil
}

// when returns a runnable that calls start when all channels are closed.
func when(start func() error, closed ...<-chan struct{}) manager.RunnableFunc {
	return func(ctx context.Context) error {
		for _, ready := range closed {
			select {
			case <-ready:
			case <-ctx.Done():
				return nil
			}
		}
		return start()
	}
}
