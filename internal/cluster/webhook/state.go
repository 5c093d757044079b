package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
)

// latchesName is the ConfigMap with the latches: a key for each resource whose latch
// has closed. An administrator opens one by removing the key.
const latchesName = "cpupool-webhook-latches"

// latchKey is a resource's key in the ConfigMap, whose keys have no slash.
func latchKey(resource string) string { return strings.Replace(resource, "/", "_", 1) }

// state follows the cluster and keeps the settings that come of it. It implements
// review.Cluster and manager.Runnable.
type state struct {
	switches admission.Switches
	latches  client.ObjectKey
	cache    cache.Cache
	writer   client.Client
	live     client.Reader // past the caches
	count    *counters
	log      *slog.Logger

	current atomic.Pointer[admission.Settings]
	known   chan struct{} // closed when there are settings
}

// namespaceKind is what a namespace's metadata is asked for by.
func namespaceKind() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// cacheOptions keep what decisions need, and no more: clusters have thousands of nodes.
func cacheOptions(latches client.ObjectKey, switches admission.Switches) cache.Options {
	shared := true
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:  {Transform: slimNode(switches), UnsafeDisableDeepCopy: &shared},
			namespaceKind(): {Transform: slimNamespace, UnsafeDisableDeepCopy: &shared},
			// By name, so that nothing but this one needs to be allowed.
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				latches.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", latches.Name)},
			}},
		},
	}
}

func slimNode(switches admission.Switches) toolscache.TransformFunc {
	resources := switches.Resources()
	return func(o any) (any, error) {
		n, ok := o.(*corev1.Node)
		if !ok {
			return o, nil
		}
		allocatable := corev1.ResourceList{}
		for name, q := range n.Status.Allocatable {
			if _, wanted := resources[string(name)]; wanted {
				allocatable[name] = q
			}
		}
		slim := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion},
			Spec:       corev1.NodeSpec{Unschedulable: n.Spec.Unschedulable},
			Status:     corev1.NodeStatus{Allocatable: allocatable},
		}
		if eviction.Tainted(n) { // few are, and nothing else of the others matters
			slim.Spec.Taints, slim.Status.Conditions = n.Spec.Taints, n.Status.Conditions
		}
		return slim, nil
	}
}

func slimNamespace(o any) (any, error) {
	n, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return o, nil
	}
	annotations := maps.Clone(n.Annotations)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &metav1.PartialObjectMetadata{
		TypeMeta:   n.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Annotations: annotations},
	}, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica follows.
func (s *state) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It returns when ctx is done, or when the cluster
// cannot be followed.
func (s *state) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // it will look anyway
		}
	}
	for _, kind := range []client.Object{&corev1.Node{}, &corev1.ConfigMap{}, namespaceKind()} {
		informer, err := s.cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("follow %T: %w", kind, err)
		}
		if _, namespace := kind.(*metav1.PartialObjectMetadata); namespace {
			continue // asked for by name
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { wake() },
			UpdateFunc: func(any, any) { wake() },
			DeleteFunc: func(any) { wake() },
		}); err != nil {
			return fmt.Errorf("follow %T: %w", kind, err)
		}
	}
	delays := backoff.NewExponentialBackOff()
	delays.MaxInterval = time.Minute
	var pause <-chan time.Time // after a failure; nodes change every few seconds, and are no reason to try again
	for {
		switch err := s.pass(ctx, pause == nil); {
		case err != nil && ctx.Err() == nil:
			s.log.Error("follow the cluster", "error", err)
			pause = time.After(delays.NextBackOff())
		case pause == nil:
			delays.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-pause:
			pause = nil
		}
	}
}

// pass decides anew, and closes latches if they may be closed now.
func (s *state) pass(ctx context.Context, closes bool) error {
	var list corev1.NodeList
	if err := s.cache.List(ctx, &list); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]admission.Node, 0, len(list.Items))
	for i := range list.Items {
		nodes = append(nodes, admission.Node{Unschedulable: list.Items[i].Spec.Unschedulable, Allocatable: list.Items[i].Status.Allocatable})
	}
	var stored corev1.ConfigMap
	missing := s.cache.Get(ctx, s.latches, &stored)
	if missing != nil && !apierrors.IsNotFound(missing) {
		return fmt.Errorf("read latches: %w", missing)
	}
	latched, closing := latches(s.switches, stored.Data, nodes)
	settings := s.switches.Settings(latched, nodes)
	s.publish(&settings, latched)
	switch {
	case len(closing) == 0 || !closes:
		return nil
	case missing != nil:
		return fmt.Errorf("latch %s: ConfigMap %s is missing; apply deploy/webhook/webhook.yaml again", strings.Join(closing, ", "), s.latches)
	}
	return s.store(ctx, &stored, closing, len(nodes))
}

// latches returns the resources whose latch is closed by what is stored, and those
// whose latch closes now. A latch that closes counts when it is stored: until then
// another replica knows nothing of it.
func latches(switches admission.Switches, stored map[string]string, nodes []admission.Node) (latched map[string]bool, closing []string) {
	latched = map[string]bool{}
	for resource, is := range switches.Resources() {
		if is != admission.SwitchAuto {
			continue
		}
		if _, closed := stored[latchKey(resource)]; closed {
			latched[resource] = true
		} else if admission.Latch(resource, nodes) {
			closing = append(closing, resource)
		}
	}
	slices.Sort(closing)
	return latched, closing
}

// store stores latches. Whoever has changed the ConfigMap in the meantime is looked at
// first: an administrator may have opened one.
func (s *state) store(ctx context.Context, stored *corev1.ConfigMap, closing []string, nodes int) error {
	closed := stored.DeepCopy()
	if closed.Data == nil {
		closed.Data = map[string]string{}
	}
	for _, resource := range closing {
		closed.Data[latchKey(resource)] = fmt.Sprintf("advertised by every schedulable node, %d in all, at %s",
			nodes, time.Now().UTC().Format(time.RFC3339))
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	err := s.writer.Patch(ctx, closed, patch, client.FieldOwner("cpupool-webhook"))
	if apierrors.IsConflict(err) {
		return nil // the change wakes the next pass
	}
	if err != nil {
		return fmt.Errorf("latch %s: %w", strings.Join(closing, ", "), err)
	}
	s.log.Info("latched", "resources", closing, "nodes", nodes)
	return nil
}

// publish makes settings those in force.
func (s *state) publish(settings *admission.Settings, latched map[string]bool) {
	on := map[string]bool{
		settings.Names.SharedResource():     settings.SharedCPUs,
		settings.Names.GuaranteedResource(): settings.GuaranteedCPUs,
	}
	for typ := range settings.Types {
		on[settings.Names.CoresResource(typ)] = true
	}
	before := s.current.Swap(settings)
	if before == nil {
		close(s.known)
	}
	for resource := range s.switches.Resources() {
		s.count.switches.WithLabelValues(resource).Set(gauge(on[resource]))
		s.count.latches.WithLabelValues(resource).Set(gauge(latched[resource]))
	}
	if before == nil || before.SharedCPUs != settings.SharedCPUs || before.GuaranteedCPUs != settings.GuaranteedCPUs ||
		!maps.Equal(before.Types, settings.Types) {
		s.log.Info("pods get resources", "types", slices.Sorted(maps.Keys(settings.Types)),
			"shared_cpus", settings.SharedCPUs, "guaranteed_cpus", settings.GuaranteedCPUs)
	}
}

func gauge(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// Settings implements review.Cluster.
func (s *state) Settings() (admission.Settings, bool) {
	if current := s.current.Load(); current != nil {
		return *current, true
	}
	return admission.Settings{}, false
}

// Namespace implements review.Cluster. A namespace that was made a moment ago may not have
// come here yet; its first pods are no others than those that follow.
func (s *state) Namespace(ctx context.Context, name string) (map[string]string, error) {
	key, found := client.ObjectKey{Name: name}, namespaceKind()
	err := s.cache.Get(ctx, key, found)
	if apierrors.IsNotFound(err) {
		err = s.live.Get(ctx, key, found)
	}
	if err != nil {
		return nil, fmt.Errorf("read namespace: %w", err)
	}
	return found.Annotations, nil
}
