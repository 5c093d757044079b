package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/cpupoold/cpupoold/internal/cluster/resourceclaims"
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
	claims, err := resourceclaims.New(resourceclaims.Options{REST: o.REST, Registry: metrics.Registry, Log: o.Log})
	if err != nil {
		return err
	}
	follow := &state{
		switches: o.Config.switches(), latches: latches,
		cache: m.GetCache(), writer: m.GetClient(), live: m.GetAPIReader(), version: discover.ServerVersionWithContext, claims: claims, count: count, log: o.Log,
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
		m.Add(follow), m.Add(claims),
		m.Add(when(func() error { return server.start(m) }, append(o.Wait, follow.known, claims.Known(), certified)...)),
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

const (
	// overlap is the time for which API servers trust an authority in addition to its
	// successor. The kubelet updates the Secret in replicas within two minutes.
	overlap = 20 * time.Minute
	// backdated is the age of a certificate of cert-controller at its creation.
	backdated = time.Hour
)

// overlapping is a manager for cert-controller, which replaces the authority in the webhook
// configurations by a new one. Replicas use certificates of the old authority until the
// kubelet updates their Secret, and API servers would refuse pods until then. So overlapping
// keeps the old authority after the new one for a while.
type overlapping struct{ manager.Manager }

// GetClient implements manager.Manager.
func (m overlapping) GetClient() client.Client {
	return keeper{m.Manager.GetClient(), m.GetAPIReader()}
}

// keeper is a client that keeps earlier authorities.
type keeper struct {
	client.Client
	live client.Reader
}

// Update implements client.Client.
func (k keeper) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if configuration, ok := o.(*unstructured.Unstructured); ok {
		is := &unstructured.Unstructured{}
		is.SetGroupVersionKind(configuration.GroupVersionKind())
		if err := k.live.Get(ctx, client.ObjectKeyFromObject(configuration), is); err != nil {
			return fmt.Errorf("read the authority before: %w", err)
		}
		if err := keepAuthorities(configuration, is, time.Now()); err != nil {
			return err
		}
	}
	return k.Client.Update(ctx, o, options...)
}

// keepAuthorities adds to the authority of each webhook its earlier ones.
func keepAuthorities(configuration, before *unstructured.Unstructured, now time.Time) error {
	had := map[any][]byte{}
	earlier, _, err := unstructured.NestedSlice(before.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range earlier {
		if w, ok := w.(map[string]any); ok {
			had[w["name"]] = bundle(w)
		}
	}
	webhooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range webhooks {
		if w, ok := w.(map[string]any); ok {
			both := authorities(bundle(w), had[w["name"]], now)
			if err := unstructured.SetNestedField(w, base64.StdEncoding.EncodeToString(both), "clientConfig", "caBundle"); err != nil {
				return err
			}
		}
	}
	return unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks")
}

// bundle returns a webhook's caBundle, or nil if it is missing or invalid.
func bundle(webhook map[string]any) []byte {
	text, _, _ := unstructured.NestedString(webhook, "clientConfig", "caBundle")
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return data
}

// authorities returns an authority in PEM. While it is young, the latest valid authorities of the
// earlier bundle follow it. Their number is limited, in case several are made in a row.
func authorities(authority, before []byte, now time.Time) []byte {
	const earlier = 3
	first, _ := pem.Decode(authority)
	if first == nil {
		return authority
	}
	made, err := x509.ParseCertificate(first.Bytes)
	if err != nil || now.Sub(made.NotBefore) > backdated+overlap {
		return authority
	}
	all, kept := bytes.Clone(authority), 0
	for block, rest := pem.Decode(before); block != nil && kept < earlier; block, rest = pem.Decode(rest) {
		old, err := x509.ParseCertificate(block.Bytes)
		if err != nil || now.After(old.NotAfter) || bytes.Equal(block.Bytes, first.Bytes) {
			continue
		}
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		kept++
	}
	return all
}
