package hostedclusters

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// look is how often it is looked whether HyperShift's kinds are there.
	look = 20 * time.Second
	// patience is how long a webhook that starts waits for what is known of HostedClusters.
	patience = 15 * time.Second
	// requestLimit bounds a request.
	requestLimit = 10 * time.Second
)

// Lease is that of the replica which leads. It is installed empty.
const Lease = "cpupool-webhook-hosted-priority"

// Options are what New needs.
type Options struct {
	Config   hostedpriority.Config
	REST     *rest.Config
	Registry prometheus.Registerer
	Log      *slog.Logger
}

// kinds says which of HyperShift's kinds are there.
type kinds interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Follower knows what pods of hosted control planes get. It implements manager.Runnable.
type Follower struct {
	config hostedpriority.Config
	client dynamic.Interface
	kinds  kinds
	count  *counters
	log    *slog.Logger

	plan  atomic.Pointer[hostedpriority.Plan] // nil while nothing is known
	known chan struct{}                       // closed when it is known, or would take too long
	close func()

	// leads says that this replica writes annotations, and elected wakes a pass when that
	// begins.
	leads   atomic.Bool
	elected chan struct{}

	unwritten memory
	failures  map[types.UID]int // 1 for each that could not be written the last time
	said      map[string]string // what the log has said last, by whom it is about
}

// New makes a follower, which Start lets follow.
func New(o Options) (*Follower, error) {
	way := rest.CopyConfig(o.REST)
	way.Timeout = 0 // of watches; other requests have theirs
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
	return newFollower(o, client, there)
}

func newFollower(o Options, client dynamic.Interface, there kinds) (*Follower, error) {
	count, err := newCounters(o.Registry)
	if err != nil {
		return nil, err
	}
	f := &Follower{config: o.Config, client: client, kinds: there, count: count, log: o.Log, known: make(chan struct{}), elected: make(chan struct{}, 1), unwritten: memory{}, said: map[string]string{}}
	var done atomic.Bool
	f.close = func() {
		if done.CompareAndSwap(false, true) {
			close(f.known)
		}
	}
	return f, nil
}

// Known is closed when something is known of HostedClusters, that there are none for
// instance; and after a while in any case, for pods must be made.
func (f *Follower) Known() <-chan struct{} { return f.known }

// Class is the priority class that a pod in a namespace gets in place of the one it has, ""
// when it keeps it.
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

// Lead has this replica write what is chosen into annotations until ctx is done. One of all
// is to lead: while their configuration changes, they would write over each other's.
func (f *Follower) Lead(ctx context.Context) {
	f.leads.Store(true)
	defer f.leads.Store(false)
	select {
	case f.elected <- struct{}{}:
	default: // it is still to be heard
	}
	<-ctx.Done()
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica follows.
func (f *Follower) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It returns when ctx is done.
func (f *Follower) Start(ctx context.Context) error {
	late := time.AfterFunc(patience, f.close)
	defer late.Stop()
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		there, err := f.there()
		switch {
		case err != nil:
			f.say("kinds", "look for HyperShift's kinds: "+err.Error())
		case !slices.Contains(there, hostedClusters()) || !slices.Contains(there, nodePools()):
			f.say("kinds", "there are no HostedClusters and NodePools of "+hostedClusters().GroupVersion().String()+"; pods keep their priority classes until HyperShift is installed")
			f.close()
		default:
			f.say("kinds", "")
			err := f.follow(ctx, there, again.C)
			f.plan.Store(nil)
			f.count.lost()
			if err == nil && ctx.Err() == nil {
				continue // something has changed: look at once
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

// there are those of the kinds that are to be followed and that the cluster has, in order.
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

// follow follows kinds until others are there, or ctx is done.
func (f *Follower) follow(ctx context.Context, followed []schema.GroupVersionResource, tick <-chan time.Time) error {
	ctx, stop := context.WithCancel(ctx)
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // it will look anyway
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
		if err != nil { // of an informer that has ended, which this has not
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
	f.passes(ctx, stores, synced, changed, func() bool {
		now, err := f.there()
		return err == nil && !slices.Equal(now, followed)
	}, tick)
	return nil
}

// inform has an informer call wake.
func (f *Follower) inform(informer cache.SharedIndexInformer, kind schema.GroupVersionResource, wake func()) (cache.ResourceEventHandlerRegistration, error) {
	if err := informer.SetTransform(slim); err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			f.log.Error("follow; apply deploy/webhook/hosted-priority", "kind", kind.Resource, "error", err)
		} else {
			f.log.Debug("follow anew", "kind", kind.Resource, "error", err)
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

// passes decides anew whenever something has changed, until over says so.
func (f *Follower) passes(ctx context.Context, stores map[schema.GroupVersionResource]cache.Store, synced []cache.InformerSynced,
	changed <-chan struct{}, over func() bool, tick <-chan time.Time,
) {
	delays := backoff.NewExponentialBackOff()
	delays.MaxInterval = time.Minute
	var pause <-chan time.Time // after a write that failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			if over() {
				f.log.Info("HyperShift's kinds have changed")
				return
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
			f.log.Error("write what was chosen into annotations", "error", err)
			pause = time.After(delays.NextBackOff())
		} else {
			delays.Reset()
		}
	}
}

// pass decides, publishes, and returns what is to be written.
func (f *Follower) pass(w world) []record {
	plan, choices := hostedpriority.NewPlan(w.table, w.classes, facts(w.clusters, f.unwritten), w.pools)
	f.unwritten.keep(w.clusters, choices)
	f.plan.Store(&plan)
	f.close()
	f.count.planned(w.table.Sizes(), choices, w.problems)
	var records []record
	said := map[string]bool{"kinds": true}
	for i, c := range w.clusters {
		whom := "HostedCluster " + c.GetNamespace() + "/" + c.GetName()
		for _, p := range choices[i].Problems {
			said[whom+" "+string(p.Kind)] = true
			f.say(whom+" "+string(p.Kind), whom+": "+p.Text)
		}
		if changes := choices[i].Record(c.GetAnnotations()); len(changes) > 0 && c.GetDeletionTimestamp() == nil {
			records = append(records, record{c, changes})
		}
	}
	for _, p := range w.problems {
		said[p.Text] = true
		f.say(p.Text, p.Text)
	}
	for whom := range maps.Keys(f.said) {
		if !said[whom] {
			delete(f.said, whom)
		}
	}
	return records
}

// say logs a problem, once until there is another one.
func (f *Follower) say(about, text string) {
	if f.said[about] == text {
		return
	}
	f.said[about] = text
	if text != "" {
		f.log.Warn("priority classes of hosted control planes", "problem", text)
	}
}
