//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	depletedTaint = "node.cpupoold.io/shared-cpus-depleted"
	pressureType  = "NodeCPUPressure"

	// clearAfter is the time for which the pool must have its floor again: the default.
	clearAfter = time.Minute
)

// depletable returns pools of which owners may take all but two CPUs. The same two CPUs are the floor of the shared
// pool.
func depletable(depletion string) string {
	return `
    partitions:
    - type: management
      cpus: 0-1
      namespaces: [kube-system, cpupoold, cpupool-webhook, ops]
    shared:
      cpus: rest
    guaranteed:
      from: shared
      floor: 2
    depletion: {action: evict, floor: 2` + depletion + `}
`
}

// TestDepletion removes a CPU from the shared pool of a node, which is then too small for pods without a CPU request. The steps
// build on each other.
func TestDepletion(t *testing.T) {
	c := start(t, "8c2n")
	c.installEvicting(t)
	c.namespace(t, "ops", "management")
	c.namespace(t, "apps", "")
	d := &depletion{cluster: c}
	d.fill(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"warning", d.warns}, {"taint", d.taints}, {"dry run", d.wouldEvict}, {"alerts", d.alerts}, {"eviction", d.evicts}, {"over", d.isOver},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// depletion is a node whose shared pool has no CPU too many.
type depletion struct {
	*cluster

	spare  int        // the CPU that makes the difference
	owned  cpuset.Set // what the owner has
	stay   []resident // pods that are never evicted
	budget *policyv1.PodDisruptionBudget
}

type podName struct{ namespace, name string }

// resident is a pod that runs, and how often the kubelet had to start it until it did: a node that is busy may refuse a start.
type resident struct {
	podName
	restarts int32
}

// staying waits for a pod that is never evicted.
func (d *depletion) staying(t *testing.T, p podName) {
	t.Helper()
	pod := d.running(t, p.namespace, p.name)
	d.stay = append(d.stay, resident{p, pod.Status.ContainerStatuses[0].RestartCount})
}

// installEvicting follows the documents: the daemon with dryRun by default, and a webhook that logs the pods that it would evict.
func (c *cluster) installEvicting(t *testing.T) {
	t.Helper()
	c.bring(t)
	c.configure(t, depletable(""))
	read(t, "docs/how-to/install.md").follow(t, c,
		"ctr --namespace k8s.io images import cpupoold-image.tar", "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml", "kubectl create -f deploy/config.yaml")
	// Of the daemon's 20m nothing is taken off: see advertised.
	c.shows(t, nodeName, map[corev1.ResourceName]int64{cores: 8000 - 20, shared: 6000})
	c.eviction(t, "dryRun")
	webhook := read(t, "docs/how-to/install-webhook.md")
	webhook.follow(t, c, "kubectl apply -f deploy/webhook/webhook.yaml")
	read(t, "docs/how-to/handle-depletion.md").follow(t, c, "kubectl apply -f deploy/webhook/eviction/eviction.yaml")
	webhook.follow(t, c,
		"kubectl -n cpupool-webhook rollout status deployment cpupool-webhook",
		"kubectl apply -f deploy/webhook/admission.yaml",
		"kubectl apply -f deploy/webhook/trust.yaml",
		"kubectl annotate namespace kube-system workload.openshift.io/allowed=management")
	c.latched(t, cores, shared)
}

// eviction enables or disables the eviction of pods in deploy/webhook/webhook.yaml. It evicts at once, one
// pod in a second.
func (c *cluster) eviction(t *testing.T, how string) {
	t.Helper()
	const file, last = "deploy/webhook/webhook.yaml", "    guaranteedCPUs: auto\n"
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), last)
	if !found {
		t.Fatalf("%s has no configuration that ends with %q", file, last)
	}
	c.plane.write(t, file, before+last+"    depletion: {eviction: "+strconv.Quote(how)+", evictionsPerMinute: 60, after: 0s}\n"+after)
}

// fill makes pods of every kind. One has four exclusive CPUs, and leaves two to the others.
func (d *depletion) fill(t *testing.T) {
	for name, priority := range map[string]int32{"lowest": -20, "low": -10, "high": 10} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: priority}
		if _, err := d.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	one := intstr.FromInt32(1)
	guard := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"class": "lowest"}},
	}}
	var stay []podName
	var err error
	if d.budget, err = d.PolicyV1().PodDisruptionBudgets("apps").Create(t.Context(), guard, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		namespace, name, class string
		annotations            map[string]string
		cpus                   string
		goes                   bool
	}{
		{"apps", "whole", "", nil, "4|4", false},
		{"apps", "requesting", "", nil, "100m", false},
		{"ops", "monitor", "", management(), "100m", false},
		{"ops", "idle", "", management(), "", false},
		{"kube-system", "critical", "system-cluster-critical", nil, "", false},
		{"apps", "high", "high", nil, "", true},
		{"apps", "middle", "", nil, "", true},
		{"apps", "low", "low", nil, "", true},
		{"apps", "guarded", "lowest", nil, "", true},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name, Annotations: p.annotations, Labels: map[string]string{"class": p.class}}, Spec: spec(p.cpus)}
		pod.Spec.PriorityClassName = p.class
		if _, err := d.CoreV1().Pods(p.namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create pod %s/%s: %v", p.namespace, p.name, err)
		}
		if !p.goes {
			stay = append(stay, podName{p.namespace, p.name})
		}
	}
	for _, name := range []string{"high", "middle", "low", "guarded"} {
		d.running(t, "apps", name)
	}
	for _, p := range stay {
		d.staying(t, p)
	}
	d.owned = d.cpus(t, d.running(t, "apps", "whole"))
	left := cpuset.Range(2, 7).Difference(d.owned)
	if d.owned.Len() != 4 || left.Len() != 2 {
		t.Fatalf("the pod with whole CPUs runs on %v; want four of 2-7", d.owned)
	}
	d.spare = left.Last()
	if shows, why := d.depletedNode(t.Context()); shows || why != nil {
		t.Errorf("the node shows depletion at the start: %v; want none", why)
	}
}

// plug takes the spare CPU away, or brings it back, and waits until the cluster sees that.
func (d *depletion) plug(t *testing.T, online bool) {
	t.Helper()
	value, want := "0", int64(5000)
	if online {
		value, want = "1", 6000
	}
	d.run(t, "sh", "-euc", `echo "$1" >"/sys/devices/system/cpu/cpu$0/online"`, strconv.Itoa(d.spare), value)
	eventually(t, "the node shows what its shared pool has", func(ctx context.Context) error {
		node, err := d.node(ctx, nodeName)
		if err != nil {
			return err
		}
		if of := node.Status.Allocatable[shared]; of.Value() != want {
			return fmt.Errorf("of %s it has %v; want %d", shared, &of, want)
		}
		return nil
	})
}

// depletedNode reports whether the Node shows depletion. It returns an error if condition and taint differ, or if the taint is not the one of
// eviction.
func (d *depletion) depletedNode(ctx context.Context) (bool, error) {
	node, err := d.node(ctx, nodeName)
	if err != nil {
		return false, err
	}
	tainted := false
	for _, taint := range node.Spec.Taints {
		if taint.Key == depletedTaint {
			tainted = true
			if taint.Value != "evict" || taint.Effect != corev1.TaintEffectNoSchedule {
				return false, fmt.Errorf("it has the taint %+v", taint)
			}
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == pressureType && (condition.Status == corev1.ConditionTrue) != tainted {
			return false, fmt.Errorf("it has the condition %+v and the taints %v", condition, node.Spec.Taints)
		}
		if condition.Type == pressureType {
			return tainted, nil
		}
	}
	if tainted {
		return false, fmt.Errorf("it has taints %v, and no condition %s", node.Spec.Taints, pressureType)
	}
	return false, nil
}

// warns checks that by default the daemon only reports depletion.
func (d *depletion) warns(t *testing.T) {
	d.plug(t, false)
	eventually(t, "an event of the Node warns", func(ctx context.Context) error {
		events, err := d.reported(ctx, "SharedDepleted")
		if err == nil && !slices.ContainsFunc(events, func(e corev1.Event) bool {
			return e.InvolvedObject.Kind == "Node" && e.InvolvedObject.Name == nodeName && e.Type == corev1.EventTypeWarning &&
				strings.Contains(e.Message, "has 1 CPUs that no other pool uses, and should have 2") && strings.Contains(e.Message, "depletion.dryRun")
		}) {
			err = fmt.Errorf("events are %+v", events)
		}
		return err
	})
	eventually(t, "so does the condition of the pools", func(ctx context.Context) error {
		node, err := d.node(ctx, nodeName)
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == "CPUPoolsReady" && condition.Reason == "SharedDepleted" {
				return nil
			}
			if condition.Type == pressureType {
				t.Errorf("condition in a dry run = %+v; want none", condition)
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
	if shows, err := d.depletedNode(t.Context()); shows || err != nil {
		t.Errorf("the node shows depletion in a dry run, %v", err)
	}
}

// taints checks that the scheduler sends no pods without a CPU request to the node, and
// sends others.
func (d *depletion) taints(t *testing.T) {
	d.configure(t, depletable(", dryRun: false"))
	d.kubectl(t, "kubectl apply -f deploy/config.yaml")
	// The kubelet brings the file now, instead of within a minute or two.
	d.kubectl(t, "kubectl -n cpupoold annotate pods --all test=now")
	eventually(t, "the node has taint and condition", func(ctx context.Context) error {
		shows, err := d.depletedNode(ctx)
		if err == nil && !shows {
			err = fmt.Errorf("it has not")
		}
		return err
	})
	d.make(t, "apps", "late", nil, "")
	d.make(t, "apps", "late-requesting", nil, "100m")
	d.make(t, "ops", "late-monitor", management(), "100m")
	d.make(t, "ops", "late-idle", management(), "")
	for _, p := range []podName{{"apps", "late-requesting"}, {"ops", "late-monitor"}, {"ops", "late-idle"}} {
		d.staying(t, p)
	}
	eventually(t, "a pod without a CPU request gets an event about the taint", func(ctx context.Context) error {
		pod, err := d.CoreV1().Pods("apps").Get(ctx, "late", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, "untolerated taint") {
				return nil
			}
		}
		return fmt.Errorf("its node is %q, its conditions are %+v", pod.Spec.NodeName, pod.Status.Conditions)
	})
}

// wouldEvict checks that the webhook logs the pods that it would evict, and evicts
// none.
func (d *depletion) wouldEvict(t *testing.T) {
	d.evictions(t, "WouldBeEvicted", "guarded", "low", "middle", "high")
	d.stays(t)
	for _, name := range []string{"guarded", "low", "middle", "high"} {
		d.running(t, "apps", name)
	}
}

// evicts checks that pods leave, the lowest priority first, and that a budget holds.
func (d *depletion) evicts(t *testing.T) {
	d.eviction(t, "on")
	d.kubectl(t, "kubectl apply -f deploy/webhook/webhook.yaml")
	d.kubectl(t, "kubectl -n cpupool-webhook rollout restart deployment cpupool-webhook") // the node is tainted, and its replicas come
	d.kubectl(t, "kubectl -n cpupool-webhook rollout status deployment cpupool-webhook")
	d.evictions(t, "EvictedForDepletion", "low", "middle", "high")
	d.evictions(t, "EvictionRefused", "guarded")
	d.running(t, "apps", "guarded")
	d.stays(t)
	none := intstr.FromInt32(0)
	d.budget, _ = d.PolicyV1().PodDisruptionBudgets("apps").Get(t.Context(), d.budget.Name, metav1.GetOptions{})
	d.budget.Spec.MinAvailable = &none
	if _, err := d.PolicyV1().PodDisruptionBudgets("apps").Update(t.Context(), d.budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.evictions(t, "EvictedForDepletion", "low", "middle", "high", "guarded")
	eventually(t, "they are gone", func(ctx context.Context) error {
		pods, err := d.CoreV1().Pods("apps").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		if want := []string{"late", "late-requesting", "requesting", "whole"}; !slices.Equal(names, want) {
			return fmt.Errorf("pods are %v; want %v", names, want)
		}
		return nil
	})
	d.stays(t)
}

// isOver checks that the taint goes when the pool has had its floor for a minute, and no
// sooner.
func (d *depletion) isOver(t *testing.T) {
	d.plug(t, true)
	d.plug(t, false) // the minute begins again
	back := time.Now()
	d.plug(t, true)
	eventually(t, "taint and condition are gone", func(ctx context.Context) error {
		shows, err := d.depletedNode(ctx)
		if err == nil && shows {
			err = fmt.Errorf("they are not")
		}
		return err
	})
	if after := time.Since(back); after < clearAfter {
		t.Errorf("the node was free after %v; want %v (depletion.clearAfter)", after, clearAfter)
	}
	d.isOn(t, d.running(t, "apps", "late"), nodeName, cpuset.Range(2, 7).Difference(d.owned))
	d.stays(t)
	if got := d.cpus(t, d.running(t, "apps", "whole")); !got.Equal(d.owned) {
		t.Errorf("CPUs of the pod with whole CPUs = %v; want %v", got, d.owned)
	}
}

// stays checks that no process has evicted or recreated the pods that must stay.
func (d *depletion) stays(t *testing.T) {
	t.Helper()
	for _, p := range d.stay {
		pod, err := d.CoreV1().Pods(p.namespace).Get(t.Context(), p.name, metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp != nil || pod.Status.ContainerStatuses[0].RestartCount != p.restarts {
			t.Errorf("pod %s/%s did not stay: %v, %+v", p.namespace, p.name, err, pod.Status)
		}
	}
}

// reported returns all events with a reason.
func (d *depletion) reported(ctx context.Context, reason string) ([]corev1.Event, error) {
	all, err := d.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// evictions waits until just these pods have had an event, in this order.
func (d *depletion) evictions(t *testing.T, reason string, want ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s: %v", reason, want), func(ctx context.Context) error {
		events, err := d.reported(ctx, reason)
		if err != nil {
			return err
		}
		first := make(map[string]time.Time)
		for _, e := range events {
			if at, seen := first[e.InvolvedObject.Name]; !seen || e.EventTime.Time.Before(at) {
				first[e.InvolvedObject.Name] = e.EventTime.Time
			}
		}
		names := slices.SortedFunc(maps.Keys(first), func(a, b string) int { return first[a].Compare(first[b]) })
		if !slices.Equal(names, want) {
			return fmt.Errorf("it was %v", names)
		}
		return nil
	})
}
