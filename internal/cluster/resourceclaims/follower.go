package resourceclaims

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

const (
	// lookInterval is the interval at which the follower looks for the kinds.
	lookInterval = time.Minute
	// knownTimeout is the time that a starting webhook waits for the claims.
	knownTimeout = 15 * time.Second
	// lookTimeout is the timeout of one look.
	lookTimeout = 10 * time.Second
)

// Resources of resource.k8s.io/v1.
const (
	claims    = "resourceclaims"
	templates = "resourceclaimtemplates"
	classes   = "deviceclasses"
)

// byResource is the name of the index of classes by their extended resources.
const byResource = "resource"

// Options configures New.
type Options struct {
	REST     *rest.Config
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// Follower knows the claims of a cluster. It implements manager.Runnable and admission.Claims.
type Follower struct {
	kinds  *discovery.DiscoveryClient
	client rest.Interface // of resource.k8s.io/v1
	log    *slog.Logger

	stores atomic.Pointer[stores] // nil if the cluster has no claims
	known  chan struct{}          // closed when the claims are read, or missing, or after knownTimeout
	close  func()

	mu     sync.Mutex
	logged map[string]string // the last problem of each resource
}

// stores are the informers of the kinds.
type stores struct {
	of      map[string]cache.SharedIndexInformer
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a follower. Start makes it follow the objects. Before, all claims are unknown.
func New(o Options) (*Follower, error) {
	config := rest.CopyConfig(o.REST)
	config.Timeout = 0 // a watch lasts
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/apis", &resourcev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	short := rest.CopyConfig(o.REST)
	short.Timeout = lookTimeout
	kinds, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	f := &Follower{kinds: kinds, client: client, log: o.Log, known: make(chan struct{}), logged: map[string]string{}}
	f.close = sync.OnceFunc(func() { close(f.known) })
	f.stores.Store(&stores{})
	promauto.With(o.Registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cpupool_webhook_claims_known",
		Help: "1 if the webhook knows all ResourceClaims, or the API server has no ResourceClaims (before Kubernetes 1.34). 0: it counts the cpu requests of all containers, and warns.",
	}, func() float64 {
		if s := f.stores.Load(); s == nil || s.has(claims, templates, classes) {
			return 1
		}
		return 0
	})
	return f, nil
}

// Known returns a channel that is closed when the claims are read, or missing, or after a while: the creation of
// pods must not wait longer.
func (f *Follower) Known() <-chan struct{} { return f.known }

// Start implements manager.Runnable. It returns when ctx is done.
func (f *Follower) Start(ctx context.Context) error {
	late := time.AfterFunc(knownTimeout, f.close)
	defer late.Stop()
	again := time.NewTicker(lookInterval)
	defer again.Stop()
	for {
		f.look(ctx)
		select {
		case <-ctx.Done():
			f.end()
			return nil
		case <-again.C:
		}
	}
}

// look begins to follow the kinds if the cluster has them, and ends that if it has them no longer.
func (f *Follower) look(ctx context.Context) {
	list, err := f.kinds.ServerResourcesForGroupVersion(resourcev1.SchemeGroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		f.note("kinds", "look for the kinds of resource.k8s.io/v1: "+err.Error())
		return
	}
	for _, resource := range []string{claims, templates, classes} {
		if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			f.note("kinds", "the API server does not have "+resource+" of resource.k8s.io/v1; containers with claims count by their cpu requests")
			f.end()
			f.stores.Store(nil)
			f.close()
			return
		}
	}
	f.note("kinds", "")
	if s := f.stores.Load(); s == nil || s.of == nil {
		f.begin(ctx)
	}
}

// begin follows the kinds until ctx is done, or end is called.
func (f *Follower) begin(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stores{of: map[string]cache.SharedIndexInformer{}, stop: cancel}
	var synced []cache.InformerSynced
	for resource, example := range map[string]runtime.Object{
		claims: &resourcev1.ResourceClaim{}, templates: &resourcev1.ResourceClaimTemplate{}, classes: &resourcev1.DeviceClass{},
	} {
		indexers := cache.Indexers{}
		if resource == classes {
			indexers[byResource] = func(o any) ([]string, error) { return []string{o.(*slim).class.Resource}, nil }
		}
		list := cache.NewListWatchFromClient(f.client, resource, metav1.NamespaceAll, fields.Everything())
		informer := cache.NewSharedIndexInformer(list, example, 0, indexers)
		_ = informer.SetTransform(transform) // fails only after the start
		_ = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			if apierrors.IsForbidden(err) {
				f.note(resource, "the webhook may not list "+resource+", so all claims are unknown; apply deploy/webhook/webhook.yaml again: "+err.Error())
			} else {
				f.log.Debug("follow again", "kind", resource, "error", err)
			}
		})
		s.of[resource] = informer
		synced = append(synced, informer.HasSynced)
	}
	f.stores.Store(s)
	for _, informer := range s.of {
		s.running.Go(func() { informer.RunWithContext(ctx) })
	}
	s.running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			f.log.Info("ResourceClaims are known", "claims", len(s.of[claims].GetStore().ListKeys()), "templates", len(s.of[templates].GetStore().ListKeys()))
			f.close()
		}
	})
}

// end stops the informers.
func (f *Follower) end() {
	if s := f.stores.Load(); s != nil && s.of != nil {
		s.stop()
		s.running.Wait()
	}
}

// note logs a problem if it differs from the last one of the same subject.
func (f *Follower) note(about, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.logged[about] == text {
		return
	}
	f.logged[about] = text
	if text != "" {
		f.log.Warn("ResourceClaims", "problem", text)
	}
}

// has reports whether all objects of resources are known.
func (s *stores) has(resources ...string) bool {
	return !slices.ContainsFunc(resources, func(r string) bool { return s.of[r] == nil || !s.of[r].HasSynced() })
}

// UseOf implements admission.Claims.
func (f *Follower) UseOf(namespace string, entry *corev1.PodResourceClaim, request string) cpuclaim.Use {
	s := f.stores.Load()
	if s == nil {
		return cpuclaim.Other
	}
	resource, name := claims, entry.ResourceClaimName
	if name == nil {
		resource, name = templates, entry.ResourceClaimTemplateName
	}
	if name == nil || s.of[resource] == nil {
		return cpuclaim.Unknown
	}
	o, found, _ := s.of[resource].GetStore().GetByKey(namespace + "/" + *name) // never fails
	if !found {
		return cpuclaim.Unknown
	}
	return cpuclaim.UseOf(o.(*slim).requests, request, s.class)
}

// UseOfResource implements admission.Claims.
func (f *Follower) UseOfResource(name string) cpuclaim.Use {
	s := f.stores.Load()
	if s == nil {
		return cpuclaim.Other
	}
	return cpuclaim.UseOfResource(name, s.class, s.classesOf)
}

// classesOf returns the classes with an extended resource. While the classes are not read, it returns none: most
// extended resources are of device plugins.
func (s *stores) classesOf(resource string) (all []cpuclaim.Class) {
	if s.of[classes] == nil {
		return nil
	}
	found, _ := s.of[classes].GetIndexer().ByIndex(byResource, resource) // fails only without the index
	for _, o := range found {
		all = append(all, o.(*slim).class)
	}
	return all
}

// class returns the facts about a class.
func (s *stores) class(name string) (cpuclaim.Class, bool) {
	if s.of[classes] == nil {
		return cpuclaim.Class{}, false
	}
	o, found, _ := s.of[classes].GetStore().GetByKey(name)
	if !found {
		return cpuclaim.Class{}, false
	}
	return o.(*slim).class, true
}

// slim is a claim, a template or a class in a store.
type slim struct {
	namespace, name string
	requests        []cpuclaim.Request // of a claim or template
	class           cpuclaim.Class
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which the store finds the key.
func (s *slim) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}
}

// transform removes the fields that the webhook does not use. The text of an object is in one piece of memory, so
// it copies the names.
func transform(o any) (any, error) {
	switch o := o.(type) {
	case *resourcev1.ResourceClaim:
		return newSlim(o, cpuclaim.Requests(&o.Spec), cpuclaim.Class{}), nil
	case *resourcev1.ResourceClaimTemplate:
		return newSlim(o, cpuclaim.Requests(&o.Spec.Spec), cpuclaim.Class{}), nil
	case *resourcev1.DeviceClass:
		return newSlim(o, nil, cpuclaim.ClassOf(o)), nil
	}
	return o, nil // the store transforms some objects twice
}

func newSlim(o metav1.Object, requests []cpuclaim.Request, class cpuclaim.Class) *slim {
	return &slim{strings.Clone(o.GetNamespace()), strings.Clone(o.GetName()), requests, class}
}
