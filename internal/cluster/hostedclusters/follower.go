package hostedclusters

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

const (
	// look is the interval at which the follower looks for HyperShift's kinds.
	look = 20 * time.Second
	// knownTimeout is the time that a starting webhook waits for the HostedClusters.
	knownTimeout = 15 * time.Second
	// requestLimit is the timeout of a request.
	requestLimit = 10 * time.Second
)

// Lease is the name of the Lease that elects the replica which writes. Its manifest is empty.
const Lease = "cpupool-webhook-hosted-priority"

// Options configures New.
type Options struct {
	Config   hostedpriority.Config
	REST     *rest.Config
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// kinds lists the kinds that the cluster has.
type kinds interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Follower holds the priority classes for pods of hosted control planes. It implements
// manager.Runnable.
type Follower struct {
	config hostedpriority.Config
	client dynamic.Interface
	kinds  kinds
	count  *counters
	log    *slog.Logger

	plan  atomic.Pointer[hostedpriority.Plan] // nil until the objects are read
	known chan struct{}                       // closed after the first plan, or after knownTimeout
	close func()

	// leads is set while this replica writes annotations. elected wakes a pass when it begins
	// to lead.
	leads   atomic.Bool
	elected chan struct{}

	unwritten memory
	failures  map[types.UID]int // 1 for each cluster whose last write failed
	logged    map[string]string // the last logged problem, by its subject
}

// New returns a follower. Start makes it follow the objects.
func New(o Options) (*Follower, error) {
	way := rest.CopyConfig(o.REST)
	way.Timeout = 0 // watches have no timeout; other requests set one
	way.QPS, way.Burst = 20, 30
	client, err := dynamic.NewForConfig(way)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	short := rest.CopyConfig(o.REST)
	short.Timeout = requestLimit
	there, err := discovery.NewDiscoveryClientForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return newFollower(o, client, there), nil
}

// newFollower is New with a given client.
func newFollower(o Options, client dynamic.Interface, there kinds) *Follower {
	f := &Follower{config: o.Config, client: client, kinds: there, count: newCounters(o.Registry), log: o.Log, known: make(chan struct{}), elected: make(chan struct{}, 1), unwritten: memory{}, logged: map[string]string{}}
	f.close = sync.OnceFunc(func() { close(f.known) })
	return f
}

// Known returns a channel that is closed when the HostedClusters are read, or missing, or
// after knownTimeout: the creation of pods must not wait longer.
func (f *Follower) Known() <-chan struct{} { return f.known }

// Class returns the priority class for a pod in a namespace that has class has, or "" if the
// pod keeps its class.
func (f *Follower) Class(namespace, has string) string {
	role, hosted := hostedpriority.RoleOf(has)
	if !hosted {
		return ""
	}
	class, reason := "", hostedpriority.Unknown
	if plan := f.plan.Load(); plan != nil {
		class, reason = plan.Class(namespace, role)
	}
	f.count.pods.WithLabelValues(string(reason)).Inc()
	if class == has {
		return ""
	}
	return class
}

// Lead makes this replica record choices in annotations until ctx is done. Only one replica
// may lead: during a change of the configuration, replicas would overwrite each other's choice.
func (f *Follower) Lead(ctx context.Context) {
	f.leads.Store(true)
	defer f.leads.Store(false)
	select {
	case f.elected <- struct{}{}:
	default: // a token is in the channel already
	}
	<-ctx.Done()
}

// Start implements manager.Runnable. It returns when ctx is done.
func (f *Follower) Start(ctx context.Context) error {
	late := time.AfterFunc(knownTimeout, f.close)
	defer late.Stop()
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		there, err := f.there()
		switch {
		case err != nil:
			f.logProblem("kinds", "look for HyperShift's kinds: "+err.Error())
		case !slices.Contains(there, hostedClusters()) || !slices.Contains(there, nodePools()):
			f.logProblem("kinds", "the cluster has no HostedClusters and NodePools of "+hostedClusters().GroupVersion().String()+"; pods keep their priority classes until HyperShift is installed")
			f.close()
		default:
			f.logProblem("kinds", "")
			err := f.follow(ctx, there, again.C)
			f.plan.Store(nil)
			f.count.lost()
			if err == nil && ctx.Err() == nil {
				continue // the kinds have changed: look at once
			}
			if err != nil {
				f.log.Error("follow hosted clusters", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

// there returns the kinds to follow that the cluster has, in a fixed order.
func (f *Follower) there() ([]schema.GroupVersionResource, error) {
	wanted := []schema.GroupVersionResource{hostedClusters(), nodePools(), priorityClasses()}
	if f.config.SizesFrom == hostedpriority.FromSizing {
		wanted = append(wanted, sizings())
	}
	var there []schema.GroupVersionResource
	lists := map[string]*metav1.APIResourceList{}
	for _, kind := range wanted {
		group := kind.GroupVersion().String()
		if _, asked := lists[group]; !asked {
			list, err := f.kinds.ServerResourcesForGroupVersion(group)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, err
			}
			lists[group] = list
		}
		if list := lists[group]; list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource }) {
			there = append(there, kind)
		}
	}
	return there, nil
}

// follow makes a pass after each change of objects, until the cluster has other kinds, or ctx is done.
func (f *Follower) follow(ctx context.Context, followed []schema.GroupVersionResource, tick <-chan time.Time) error {
	ctx, stop := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // a pass is due already
		}
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(f.client, 0)
	defer factory.Shutdown()
	defer stop()
	stores := map[schema.GroupVersionResource]cache.Store{}
	var synced []cache.InformerSynced
	for _, kind := range followed {
		informer := factory.ForResource(kind).Informer()
		registration, err := f.inform(informer, kind, wake)
		if err != nil { // only of an informer that has ended
			return fmt.Errorf("follow %s: %w", kind.Resource, err)
		}
		stores[kind] = informer.GetStore()
		synced = append(synced, registration.HasSynced)
	}
	factory.Start(ctx.Done())
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), synced...) {
			wake()
		}
	}()
	delays := backoff.NewExponentialBackOff()
	delays.MaxInterval = time.Minute
	var pause <-chan time.Time // after a failed write
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
			if now, err := f.there(); err == nil && !slices.Equal(now, followed) {
				f.log.Info("HyperShift's kinds have changed")
				return nil
			}
			continue
		case <-changed:
		case <-f.elected:
		case <-pause:
			pause = nil
		}
		if slices.ContainsFunc(synced, func(has cache.InformerSynced) bool { return !has() }) {
			continue
		}
		objects := map[schema.GroupVersionResource][]any{}
		for kind, store := range stores {
			objects[kind] = store.List()
		}
		records := f.pass(read(&f.config, objects))
		if pause != nil || !f.leads.Load() {
			continue
		}
		if err := f.write(ctx, records); err != nil && ctx.Err() == nil {
			f.log.Error("record priority classes in annotations", "error", err)
			pause = time.After(delays.NextBackOff())
		} else {
			delays.Reset()
		}
	}
}

// inform makes an informer call wake for each change.
func (f *Follower) inform(informer cache.SharedIndexInformer, kind schema.GroupVersionResource, wake func()) (cache.ResourceEventHandlerRegistration, error) {
	if err := informer.SetTransform(slim); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			f.log.Error("follow; apply deploy/webhook/hosted-priority", "kind", kind.Resource, "error", err)
		} else {
			f.log.Debug("follow again", "kind", kind.Resource, "error", err)
		}
	}); err != nil {
		return nil, err
	}
	return informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		UpdateFunc: func(any, any) { wake() },
		DeleteFunc: func(any) { wake() },
	})
}

// pass decides, publishes the plan, and returns the records to write.
func (f *Follower) pass(w world) []record {
	clusters := make([]hostedpriority.HostedCluster, 0, len(w.clusters))
	for _, c := range w.clusters {
		clusters = append(clusters, hostedpriority.HostedCluster{Namespace: c.GetNamespace(), Name: c.GetName(), Annotations: c.GetAnnotations(), Had: f.unwritten.had(c)})
	}
	plan, choices := hostedpriority.NewPlan(w.table, w.classes, clusters, w.pools)
	f.unwritten.keep(w.clusters, choices)
	f.plan.Store(&plan)
	f.close()
	f.count.planned(w.table.Sizes(), choices, w.problems)
	var records []record
	logged := map[string]bool{"kinds": true}
	for i, c := range w.clusters {
		whom := "HostedCluster " + c.GetNamespace() + "/" + c.GetName()
		for _, p := range choices[i].Problems {
			logged[whom+" "+string(p.Kind)] = true
			f.logProblem(whom+" "+string(p.Kind), whom+": "+p.Text)
		}
		if changes := choices[i].Record(c.GetAnnotations()); len(changes) > 0 && c.GetDeletionTimestamp() == nil {
			records = append(records, record{c, changes})
		}
	}
	for _, p := range w.problems {
		logged[p.Text] = true
		f.logProblem(p.Text, p.Text)
	}
	maps.DeleteFunc(f.logged, func(whom, _ string) bool { return !logged[whom] })
	return records
}

// logProblem logs a problem if it differs from the last one of the same subject.
func (f *Follower) logProblem(about, text string) {
	if f.logged[about] == text {
		return
	}
	f.logged[about] = text
	if text != "" {
		f.log.Warn("priority classes of hosted control planes", "problem", text)
	}
}
