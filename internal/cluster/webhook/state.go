package webhook

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/version"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/internal/nodekind"
)

// latchesName is the ConfigMap with the latches: a key for each resource whose latch has
// closed. An administrator opens a latch by removing its key.
const latchesName = "cpupool-webhook-latches"

// latchKey returns a resource's key in the ConfigMap. Such keys cannot contain a slash.
func latchKey(resource string) string { return strings.Replace(resource, "/", "_", 1) }

// state follows the cluster and holds the settings that follow from it. It implements
// review.Cluster and manager.Runnable.
type state struct {
	switches admission.Switches
	latches  client.ObjectKey
	cache    cache.Cache
	writer   client.Client
	live     client.Reader // without a cache
	version  func(context.Context) (*version.Info, error)
	claims   admission.Claims
	count    *counters
	log      *slog.Logger

	defaults defaults

	current atomic.Pointer[admission.Settings]
	known   chan struct{} // closed when the first settings are published
}

// namespaceKind returns the object by which the cache finds metadata of namespaces.
func namespaceKind() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}}
}

// cacheOptions returns options for caches with the used fields only, because clusters have
// thousands of nodes.
func cacheOptions(latches client.ObjectKey, switches admission.Switches) cache.Options {
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Node{}:  {Transform: slimNode(switches), UnsafeDisableDeepCopy: new(true)},
			namespaceKind(): {Transform: slimNamespace, UnsafeDisableDeepCopy: new(true)},
			// By name, so that the program needs rights for this ConfigMap only.
			&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
				latches.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", latches.Name)},
			}},
		},
	}
}

// slimNode returns a function that removes the unused fields of nodes.
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
		switch {
		case eviction.Tainted(n): // few nodes are; package evictor uses these fields only for them
			slim.Spec.Taints, slim.Status.Conditions = n.Spec.Taints, n.Status.Conditions
		case reported(n):
			slim.Status.Conditions = []corev1.NodeCondition{{Type: admission.ReportedCondition}}
		}
		if !nodekind.CanRun(n) { // few clusters have such nodes; package nodekind reads these fields
			slim.Labels, slim.Spec.Taints = n.Labels, n.Spec.Taints
			slim.Status.NodeInfo.OperatingSystem = n.Status.NodeInfo.OperatingSystem
		}
		return slim, nil
	}
}

// reported reports whether a daemon has written its condition to a node.
func reported(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == admission.ReportedCondition })
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

// Start implements manager.Runnable. It returns when ctx is done, or when the cluster
// cannot be followed.
func (s *state) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default: // a pass is due already
		}
	}
	for _, kind := range []client.Object{&corev1.Node{}, &corev1.ConfigMap{}, namespaceKind()} {
		informer, err := s.cache.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("follow %T: %w", kind, err)
		}
		if _, namespace := kind.(*metav1.PartialObjectMetadata); namespace {
			continue // reviews read namespaces by name
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
	var pause <-chan time.Time // after a failure; nodes change every few seconds, which must not cause a retry
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

// pass computes the settings. With closes, it also closes latches whose condition is met.
func (s *state) pass(ctx context.Context, closes bool) error {
	var list corev1.NodeList
	if err := s.cache.List(ctx, &list); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes := make([]admission.Node, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		nodes = append(nodes, admission.Node{
			Name: n.Name, Unschedulable: n.Spec.Unschedulable, Allocatable: n.Status.Allocatable, Reported: reported(n),
			WithoutDaemon: !nodekind.CanRun(n),
		})
	}
	var stored corev1.ConfigMap
	missing := s.cache.Get(ctx, s.latches, &stored)
	if missing != nil && !apierrors.IsNotFound(missing) {
		return fmt.Errorf("read latches: %w", missing)
	}
	lacks := s.switches.Lacks(nodes)
	latched, closing := latches(s.switches, stored.Data, lacks)
	settings := s.switches.Settings(latched, nodes)
	settings.Claims = s.claims
	settings.Defaults = s.defaults.get(ctx, s.version, s.log)
	s.publish(&settings, latched, lacks)
	switch {
	case len(closing) == 0 || !closes:
		return nil
	case missing != nil:
		return fmt.Errorf("latch %s: ConfigMap %s is missing; apply deploy/webhook/webhook.yaml again", strings.Join(closing, ", "), s.latches)
	}
	return s.store(ctx, &stored, closing, lacks)
}

// latches returns the resources whose latch is closed in the ConfigMap, and the resources whose
// latch closes now. A latch takes effect when it is stored, because other replicas cannot see
// it before.
func latches(switches admission.Switches, stored map[string]string, lacks map[string]admission.Lack) (latched map[string]bool, closing []string) {
	latched = map[string]bool{}
	for resource, is := range switches.Resources() {
		if is != admission.SwitchAuto {
			continue
		}
		if _, closed := stored[latchKey(resource)]; closed {
			latched[resource] = true
		} else if lacks[resource].Closes() {
			closing = append(closing, resource)
		}
	}
	slices.Sort(closing)
	return latched, closing
}

// store stores closed latches. It does nothing if the ConfigMap has changed since it was read: an
// administrator may have opened a latch, so the next pass decides again.
func (s *state) store(ctx context.Context, stored *corev1.ConfigMap, closing []string, lacks map[string]admission.Lack) error {
	closed := stored.DeepCopy()
	if closed.Data == nil {
		closed.Data = map[string]string{}
	}
	for _, resource := range closing {
		closed.Data[latchKey(resource)] = fmt.Sprintf("closed with %d schedulable nodes at %s",
			lacks[resource].Schedulable, time.Now().UTC().Format(time.RFC3339))
	}
	patch := client.MergeFromWithOptions(stored, client.MergeFromWithOptimisticLock{})
	err := s.writer.Patch(ctx, closed, patch, client.FieldOwner("cpupool-webhook"))
	if apierrors.IsConflict(err) {
		return nil // the change wakes the next pass
	}
	if err != nil {
		return fmt.Errorf("latch %s: %w", strings.Join(closing, ", "), err)
	}
	s.log.Info("latched", "resources", closing, "nodes", lacks[closing[0]].Schedulable)
	return nil
}

func (s *state) publish(settings *admission.Settings, latched map[string]bool, lacks map[string]admission.Lack) {
	on := map[string]bool{
		settings.Names.SharedResource():     settings.SharedCPUs,
		settings.Names.GuaranteedResource(): settings.GuaranteedCPUs,
	}
	types := []string{}
	for typ, is := range settings.Types {
		on[settings.Names.CoresResource(typ)] = is
		if is {
			types = append(types, typ)
		}
	}
	slices.Sort(types)
	before := s.current.Swap(settings)
	if before == nil {
		close(s.known)
	}
	for resource := range s.switches.Resources() {
		s.count.switches.WithLabelValues(resource).Set(gauge(on[resource]))
		s.count.latches.WithLabelValues(resource).Set(gauge(latched[resource]))
		s.count.lacks.WithLabelValues(resource).Set(float64(lacks[resource].Nodes))
	}
	if before == nil || before.SharedCPUs != settings.SharedCPUs || before.GuaranteedCPUs != settings.GuaranteedCPUs ||
		!maps.Equal(before.Types, settings.Types) {
		s.log.Info("pods get resources", "types", types,
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

// Namespace implements review.Cluster. A new namespace may be missing in the cache; then
// Namespace reads it from the API server.
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

// The program gets the version of the API server again after versionTTL, because clusters are
// upgraded while it runs. After an error it does so after versionRetryInterval.
const (
	versionTTL           = 10 * time.Minute
	versionRetryInterval = time.Minute
	versionTimeout       = 5 * time.Second
)

// defaults holds the defaults of spec.resources that follow from the API server's version. After
// an error, they stay as they are. Before the first answer, the newest API server decides.
type defaults struct {
	current admission.Defaults
	next    time.Time // of the next question
}

// get returns the defaults, and asks for the version if it is time.
func (d *defaults) get(ctx context.Context, ask func(context.Context) (*version.Info, error), log *slog.Logger) admission.Defaults {
	now := time.Now()
	if now.Before(d.next) {
		return d.current
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	info, err := ask(ctx)
	minor := 0
	if err == nil {
		minor, err = minorOf(info)
	}
	if err != nil {
		d.next = now.Add(versionRetryInterval)
		log.Warn("the version of the API server is unknown, which decides the defaults of spec.resources; allow the account to get /version",
			"error", err)
		return d.current
	}
	d.next = now.Add(versionTTL)
	if is := admission.DefaultsOf(minor); is != d.current {
		d.current = is
		log.Info("defaults of spec.resources follow the API server", "version", info.GitVersion)
	}
	return d.current
}

// minorOf returns the minor version of the defaults of an API server. Feature gates follow the
// emulated version if there is one (apiserver --emulated-version).
func minorOf(info *version.Info) (int, error) {
	major, minor := cmp.Or(info.EmulationMajor, info.Major), cmp.Or(info.EmulationMinor, info.Minor)
	digits := strings.TrimRight(minor, "+") // some providers append it
	n, err := strconv.Atoi(digits)
	if err != nil || major != "1" || n < 0 {
		return 0, fmt.Errorf("version %q.%q is not 1.x", major, minor)
	}
	return n, nil
}
