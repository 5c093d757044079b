package evictor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/cpupoold/cpupoold/internal/cluster/election"
	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Limits of one pass: evictions that are tried, and the time of the requests.
const (
	triesPerPass  = 5
	evictionLimit = 10 * time.Second
)

// evictor evicts pods from depleted nodes, at most one in each pass. Only the elected
// replica makes passes, see lead.
type evictor struct {
	config Config
	names  workload.Names
	nodes  client.Reader // cached, with the fields that slimNode keeps
	live   client.Reader
	pods   rest.Interface // of the core group
	events events.EventRecorder
	count  *counters
	log    *slog.Logger
	now    func() time.Time

	queue  eviction.Queue
	halted halt // the reason that halted the last pass
}

// halt is a reason to evict no pod.
type halt string

const (
	haltedNot        halt = ""
	haltedByNodes    halt = "too_many_nodes"
	haltedByPolicy   halt = "no_policy"
	haltedByAnything halt = "error"
)

// lead makes passes until ctx ends. It starts with an empty queue.
func (e *evictor) lead(ctx context.Context) {
	e.queue = eviction.Queue{}
	e.count.leader.Set(1)
	defer e.count.resign()
	pace := time.NewTimer(e.config.interval())
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C: // not at once, because leaders may change often
		}
		e.halt(e.pass(ctx))
		pace.Reset(e.config.interval()) // a pass may have taken longer, and the next must not follow at once
	}
}

// halt logs and counts the reason that keeps pods from being evicted, when it changes.
func (e *evictor) halt(by halt, why error) {
	e.count.halt(by)
	if by == e.halted {
		return
	}
	if e.halted = by; by == haltedNot {
		e.log.Info("eviction goes on")
		return
	}
	e.log.Error("no pod is evicted", "reason", by, "error", why)
}

// pass evicts at most one pod. It returns the reason if none may be evicted.
func (e *evictor) pass(ctx context.Context) (halt, error) {
	now := e.now()
	var list corev1.NodeList
	if err := e.nodes.List(ctx, &list); err != nil {
		return haltedByAnything, fmt.Errorf("list nodes: %w", err)
	}
	tainted, pressed := 0, []string{}
	for i := range list.Items {
		n := &list.Items[i]
		if !eviction.Tainted(n) {
			continue
		}
		tainted++
		if ok, why := eviction.Pressed(n, now); ok {
			pressed = append(pressed, n.Name)
		} else {
			e.log.Debug("no pod is evicted from a node", "node", n.Name, "reason", why)
		}
	}
	e.count.nodes.Set(float64(len(pressed)))
	e.queue.Note(pressed, now)
	switch {
	case len(pressed) == 0:
		return haltedNot, nil
	case eviction.TooMany(tainted, len(list.Items), e.config.MaxNodesPercent):
		return haltedByNodes, fmt.Errorf("%d of %d nodes are depleted at once, and depletion.maxNodesPercent is %d: find out why",
			tainted, len(list.Items), e.config.MaxNodesPercent)
	}
	if err := bound(ctx, e.live); err != nil {
		return haltedByPolicy, err
	}
	var problems []error
	for _, node := range e.queue.Due(e.config.After, now) {
		done, err := e.relieve(ctx, node, now)
		if err != nil {
			problems = append(problems, fmt.Errorf("node %s: %w", node, err))
		}
		if done {
			break
		}
	}
	if len(problems) > 0 {
		return haltedByAnything, errors.Join(problems...)
	}
	return haltedNot, nil
}

// relieve evicts the first pod of a node that may be evicted. It reports whether it evicted
// a pod, or would have with DryRun. It reads the node first, because a cache may be late.
func (e *evictor) relieve(ctx context.Context, node string, now time.Time) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	var same corev1.NodeList
	if err := e.live.List(ctx, &same, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", node)}); err != nil {
		return false, fmt.Errorf("read it: %w", err)
	}
	if !slices.ContainsFunc(same.Items, func(n corev1.Node) bool { ok, _ := eviction.Pressed(&n, now); return ok }) {
		return false, nil
	}
	var pods corev1.PodList
	ofNode := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", node)}
	if err := e.live.List(ctx, &pods, ofNode); err != nil {
		return false, fmt.Errorf("list pods: %w", err)
	}
	tries := 0
	for _, pod := range eviction.Victims(pods.Items, node, e.names) {
		if !e.queue.Wanted(node, string(pod.UID), now) {
			continue
		}
		if tries++; tries > triesPerPass {
			break
		}
		e.queue.Served(node, now)
		if e.evict(ctx, node, pod, now) {
			return true, nil
		}
	}
	return false, nil
}

// evict evicts a pod, or reports with DryRun that it would. It returns false if the API
// server refuses.
func (e *evictor) evict(ctx context.Context, node string, pod *corev1.Pod, now time.Time) bool {
	uid, log := string(pod.UID), e.log.With("pod", pod.Namespace+"/"+pod.Name, "node", node)
	const why = "the shared CPUs of node %s are depleted, and the pod has no CPU request"
	if e.config.Eviction == DryRun {
		e.queue.Done(node, uid)
		e.count.evictions.WithLabelValues(resultWould).Inc()
		e.events.Eventf(pod, nil, corev1.EventTypeNormal, "WouldBeEvicted", "Evicting", why+"; it would be evicted (depletion.eviction: dryRun)", node)
		log.Info("pod would be evicted")
		return true
	}
	// The client must not retry: it would wait here for the time of a disruption budget that
	// no controller has evaluated yet, and all other pods with it.
	err := e.pods.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").MaxRetries(0).Body(&policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		// The UID protects a new pod of the same name.
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	}).Do(ctx).Error()
	switch {
	case err == nil:
		e.queue.Done(node, uid)
		e.count.evictions.WithLabelValues(resultDone).Inc()
		e.events.Eventf(pod, nil, corev1.EventTypeWarning, "EvictedForDepletion", "Evicting", why, node)
		log.Info("pod is evicted")
		return true
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		e.queue.Done(node, uid) // the pod is gone; a new one has another UID
	case apierrors.IsTooManyRequests(err):
		if e.queue.Refused(node, uid, now) {
			e.events.Eventf(pod, nil, corev1.EventTypeNormal, "EvictionRefused", "Evicting", why+"; it is not evicted yet: %s", node, err.Error())
		}
		e.count.evictions.WithLabelValues(resultRefused).Inc()
		log.Info("pod cannot be evicted yet", "error", err)
	default:
		e.queue.Refused(node, uid, now)
		e.count.evictions.WithLabelValues(resultFailed).Inc()
		log.Warn("pod cannot be evicted", "error", err)
	}
	return false
}

// recorder is the name of the program in events.
const recorder = "cpupool-webhook"

// leaseName is the Lease of the replica that evicts. Its manifest is empty.
const leaseName = "cpupool-webhook-eviction"

// Options configures Add.
type Options struct {
	Config Config
	// Names are the names of resources and annotations.
	Names workload.Names
	// Namespace is the namespace of the program and of its Lease.
	Namespace string
	REST      *rest.Config
	Log       *slog.Logger
}

// Add adds the evictor to a manager, unless the configuration switches it off. It evicts
// pods in one of all replicas. The manager's cache may be limited to the fields of Nodes
// that [eviction.Pressed] reads.
func Add(m manager.Manager, o Options) error {
	if o.Config.Eviction == Off {
		return nil
	}
	count := newCounters(metrics.Registry)
	core, err := corev1client.NewForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("connect to the cluster: %w", err)
	}
	evicts := &evictor{
		config: o.Config, names: o.Names,
		nodes: m.GetCache(), live: m.GetAPIReader(), pods: core.RESTClient(), events: m.GetEventRecorder(recorder),
		count: count, log: o.Log, now: time.Now,
	}
	leader, err := election.New(o.REST, o.Namespace, leaseName, evicts.lead)
	if err != nil {
		return err
	}
	return m.Add(leader)
}

// Results of evictions.
const (
	resultDone    = "evicted"
	resultWould   = "dry_run"
	resultRefused = "refused"
	resultFailed  = "failed"
)

// counters are the metrics of evictions. Only the leader sets the gauges.
type counters struct {
	evictions     *prometheus.CounterVec
	halted        *prometheus.GaugeVec
	nodes, leader prometheus.Gauge
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		evictions: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_evictions_total", Help: "Evictions of pods from depleted nodes, by result (evicted; dry_run: it would have been; refused: a disruption budget is against it, and it is tried again; failed).",
		}, []string{"result"}),
		halted: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_halted", Help: "1 while pods that should be evicted are not, by reason (too_many_nodes, no_policy, error).",
		}, []string{"reason"}),
		nodes: register.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_depleted_nodes", Help: "Depleted nodes from which pods may be evicted.",
		}),
		leader: register.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_leader", Help: "1 in the replica that evicts.",
		}),
	}
	for _, result := range []string{resultDone, resultWould, resultRefused, resultFailed} {
		c.evictions.WithLabelValues(result)
	}
	c.resign()
	return c
}

// resign sets the gauges of the leader to 0.
func (c *counters) resign() {
	c.leader.Set(0)
	c.nodes.Set(0)
	c.halt(haltedNot)
}

// halt sets the gauge of one reason to 1, and the others to 0.
func (c *counters) halt(by halt) {
	for _, reason := range []halt{haltedByNodes, haltedByPolicy, haltedByAnything} {
		value := 0.0
		if reason == by {
			value = 1
		}
		c.halted.WithLabelValues(string(reason)).Set(value)
	}
}
