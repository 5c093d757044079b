package evictor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Bounds of one pass: how many pods are tried that budgets protect, and how long a
// request may take.
const (
	triesPerPass  = 5
	evictionLimit = 10 * time.Second
)

// evictor evicts pods from depleted nodes, at most one in each pass. Its passes are one
// leader's: see elect.
type evictor struct {
	config Config
	names  workload.Names
	nodes  client.Reader // cached, as slimNode leaves them
	live   client.Reader
	pods   rest.Interface // of the core group
	events events.EventRecorder
	count  *counters
	log    *slog.Logger
	now    func() time.Time

	queue  eviction.Queue
	halted halt // what the last pass was halted by
}

// halt is a reason to evict nobody.
type halt string

const (
	haltedNot        halt = ""
	haltedByNodes    halt = "too_many_nodes"
	haltedByPolicy   halt = "no_policy"
	haltedByAnything halt = "error"
)

func halts() []halt { return []halt{haltedByNodes, haltedByPolicy, haltedByAnything} }

// lead makes passes until ctx ends. What an earlier time as leader knew is forgotten.
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
		case <-pace.C: // and not at once: leaders may change often
		}
		e.halt(e.pass(ctx))
		pace.Reset(e.config.interval()) // a pass may have taken longer, and the next must not follow at once
	}
}

// halt says what keeps pods from being evicted, when that changes.
func (e *evictor) halt(by halt, why error) {
	for _, reason := range halts() {
		e.count.halted.WithLabelValues(string(reason)).Set(boolean(reason == by))
	}
	if by == e.halted {
		return
	}
	if e.halted = by; by == haltedNot {
		e.log.Info("eviction goes on")
		return
	}
	e.log.Error("no pod is evicted", "reason", by, "error", why)
}

// pass evicts a pod, if there is one to evict.
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

// relieve evicts one pod of a node, the first of those that may be; done says that one
// was, or would have been.
func (e *evictor) relieve(ctx context.Context, node string, now time.Time) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, evictionLimit)
	defer cancel()
	// A cache may have fallen behind.
	var same corev1.NodeList
	if err := e.live.List(ctx, &same, client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", node)}); err != nil {
		return false, fmt.Errorf("read it: %w", err)
	}
	for i := range same.Items {
		if ok, _ := eviction.Pressed(&same.Items[i], now); ok {
			return e.relievePressed(ctx, node, now)
		}
	}
	return false, nil
}

func (e *evictor) relievePressed(ctx context.Context, node string, now time.Time) (done bool, err error) {
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

// evict evicts a pod, or says that it would. It is false when somebody is against it.
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
	// Without the client's own retries: it would wait here, for as long as a budget says
	// of which nobody has counted the pods, and so would all others.
	err := e.pods.Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").MaxRetries(0).Body(&policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		// Not another pod of this name.
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
		e.queue.Done(node, uid) // it is gone, and another one has another UID
		return false
	case apierrors.IsTooManyRequests(err):
		if e.queue.Refused(node, uid, now) {
			e.events.Eventf(pod, nil, corev1.EventTypeNormal, "EvictionRefused", "Evicting", why+"; it is not evicted yet: %s", node, err.Error())
		}
		e.count.evictions.WithLabelValues(resultRefused).Inc()
		log.Info("pod cannot be evicted yet", "error", err)
		return false
	default:
		e.queue.Refused(node, uid, now)
		e.count.evictions.WithLabelValues(resultFailed).Inc()
		log.Warn("pod cannot be evicted", "error", err)
		return false
	}
}
