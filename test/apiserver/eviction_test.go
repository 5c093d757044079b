//go:build apiserver

package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	depletedKey = "node.cpupoold.io/shared-cpus-depleted"
	evictionOf  = "cpupool-webhook-eviction"
)

// TestEviction checks that pods without a CPU request leave a depleted node. The steps
// build on each other.
func TestEviction(t *testing.T) {
	s := startAPIServer(t)
	for _, file := range []string{"webhook.yaml", "eviction/eviction.yaml", "../rbac.yaml"} {
		install(t, s, file)
	}
	namespaceNamed(t, s, "apps", "")
	for class, priority := range map[string]int32{"low": -10, "high": 10} {
		if _, err := s.client(t, admin).SchedulingV1().PriorityClasses().Create(t.Context(),
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: priority}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	readyNode(t, s, "n1")
	readyNode(t, s, "n2")
	guard := budget(t, s)
	cluster := s.client(t, admin).CoreV1()

	running(t, s, "low", func(p *corev1.Pod) { p.Spec.PriorityClassName = "low" })
	running(t, s, "guarded", func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Labels = "low", map[string]string{"guarded": "true"}
	})
	// No controller has counted the pods of its budget: the API server asks the client to retry
	// in 10 seconds.
	uncounted(t, s)
	running(t, s, "uncounted", func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Labels = "low", map[string]string{"uncounted": "true"}
	})
	running(t, s, "middle", nil)
	running(t, s, "high", func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	staying := []string{"critical", "elsewhere", "management", "mirror", "requesting", "tolerating", "uncounted"}
	running(t, s, "critical", func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-cluster-critical" })
	running(t, s, "elsewhere", func(p *corev1.Pod) { p.Spec.NodeName = "n2" })
	running(t, s, "management", func(p *corev1.Pod) { p.Annotations = management() })
	running(t, s, "mirror", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	running(t, s, "requesting", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = newPod("", nil, "cpu=1m").Spec.Containers[0].Resources
	})
	running(t, s, "tolerating", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: "Exists"}} })

	evicts(t, s, "dryRun")
	dry := startReplica(t, s)
	t.Run("dry run", func(t *testing.T) {
		deplete(t, s, "n1", true)
		eventually(t, "all would be evicted", func(ctx context.Context) error {
			return reported(ctx, t, s, "WouldBeEvicted", "guarded", "high", "low", "middle", "uncounted")
		})
		if gone := ending(t, s); len(gone) > 0 {
			t.Errorf("pods evicted in a dry run = %v; want none", gone)
		}
		dry.end(t)
	})

	evicts(t, s, "'on'")
	replicas := []*replica{startReplica(t, s), startReplica(t, s)}
	t.Run("in order, and not at once", func(t *testing.T) {
		eventually(t, "those without a budget are evicted", func(context.Context) error {
			if gone := ending(t, s); !slices.Equal(gone, []string{"low", "middle", "high"}) {
				return errorf("gone are %v", gone)
			}
			return nil
		})
		first, last := endOf(t, s, "low"), endOf(t, s, "high")
		// Two seconds each; a late tick is followed by one in time, and times are whole seconds.
		if between := last.Sub(first); between < 2*time.Second {
			t.Errorf("time of 3 evictions = %s; want at least 2 s with 30 in a minute", between)
		}
		eventually(t, "their events", func(ctx context.Context) error {
			return reported(ctx, t, s, "EvictedForDepletion", "high", "low", "middle")
		})
	})

	t.Run("a disruption budget", func(t *testing.T) {
		eventually(t, "the event of the refusal", func(ctx context.Context) error { return reported(ctx, t, s, "EvictionRefused", "guarded", "uncounted") })
		guard(1)
		evicted(t, s, "guarded")
	})

	// The leader is deleted with them. The new pods outlive a step.
	before := holder(t, s)
	for i, r := range replicas {
		r.end(t)
		replicas[i] = startReplica(t, s)
		name := "after-" + string(rune('a'+i))
		running(t, s, name, nil)
		evicted(t, s, name)
	}
	if holder(t, s) == before {
		t.Errorf("leader = the deleted pod %s; want another one", before)
	}
	eitherHalts := func(reason string) func(context.Context) error {
		return func(ctx context.Context) error {
			var all []string
			for _, r := range replicas {
				text := r.metricsNow(ctx, t)
				if strings.Contains(text, `cpupool_webhook_eviction_halted{reason="`+reason+`"} 1`) {
					return nil
				}
				all = append(all, text)
			}
			return errorf("metrics %s", strings.Join(all, "\n"))
		}
	}

	t.Run("too many nodes", func(t *testing.T) {
		deplete(t, s, "n2", true)
		eventually(t, "a halt", eitherHalts("too_many_nodes"))
		running(t, s, "more", nil)
		deplete(t, s, "n2", false)
		evicted(t, s, "more")
	})

	t.Run("no policy binds daemons to their nodes", func(t *testing.T) {
		bindings := s.client(t, admin).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
		binding, err := bindings.Get(t.Context(), "cpupoold-own-node", metav1.GetOptions{})
		if err == nil {
			err = bindings.Delete(t.Context(), binding.Name, metav1.DeleteOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a halt", eitherHalts("no_policy"))
		running(t, s, "unbound", nil)
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		evicted(t, s, "unbound")
	})

	t.Run("it is over", func(t *testing.T) {
		deplete(t, s, "n1", false)
		eventually(t, "no node is depleted", func(ctx context.Context) error {
			for _, r := range replicas {
				if text := r.metricsNow(ctx, t); strings.Contains(text, "cpupool_webhook_depleted_nodes 1") {
					return errorf("metrics %s", text)
				}
			}
			return nil
		})
		running(t, s, "later", nil)
		for _, name := range append(staying, "later") {
			if pod, err := cluster.Pods("apps").Get(t.Context(), name, metav1.GetOptions{}); err != nil || pod.DeletionTimestamp != nil {
				t.Errorf("pod %s is gone (%v); want it to stay", name, err)
			}
		}
	})
}

// readyNode makes a Node whose kubelet reports that it is ready.
func readyNode(t *testing.T, s *apiServer, name string) {
	t.Helper()
	nodes := s.client(t, admin).CoreV1().Nodes()
	n, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err == nil {
		n.Spec.Taints = nil // a new Node has a taint
		n, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{})
	}
	if err == nil {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		_, err = nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// deplete writes the condition of a depleted node, with the rights of its daemon.
func deplete(t *testing.T, s *apiServer, node string, depleted bool) {
	t.Helper()
	status, taint := "False", ""
	if depleted {
		status, taint = "True", `{"key":"`+depletedKey+`","value":"evict","effect":"NoSchedule"}`
	}
	now := time.Now().UTC().Format(time.RFC3339)
	of := daemonOn(t, s, node)
	_, err := of.Patch(t.Context(), node, types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"NodeCPUPressure","status":"`+status+
		`","reason":"SharedPool","message":"m","lastHeartbeatTime":"`+now+`","lastTransitionTime":"`+now+`"}]}}`), metav1.PatchOptions{}, "status")
	if err == nil {
		_, err = of.Patch(t.Context(), node, types.MergePatchType, []byte(`{"spec":{"taints":[`+taint+`]}}`), metav1.PatchOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// evicts changes the configuration of replicas that start from now on.
func evicts(t *testing.T, s *apiServer, eviction string) {
	t.Helper()
	maps := s.client(t, admin).CoreV1().ConfigMaps(installed)
	m, err := maps.Get(t.Context(), installed, metav1.GetOptions{})
	if err == nil {
		text, _, _ := strings.Cut(m.Data["config.yaml"], "depletion:")
		m.Data["config.yaml"] = text + "depletion: {eviction: " + eviction + ", evictionsPerMinute: 30, after: 1s}\n"
		_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// running makes a pod of n1 that runs and is ready, without requests.
func running(t *testing.T, s *apiServer, name string, change func(*corev1.Pod)) {
	t.Helper()
	pods := s.client(t, admin).CoreV1().Pods("apps")
	pod := newPod(name, nil, "")
	pod.Spec.NodeName = "n1"
	if change != nil {
		change(pod)
	}
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	if _, err := pods.Patch(t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

// budget protects guarded pods, as the disruption controller would. The returned
// function lets so many of them go.
func budget(t *testing.T, s *apiServer) func(allowed int32) {
	t.Helper()
	budgets := s.client(t, admin).PolicyV1().PodDisruptionBudgets("apps")
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "true"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	guard := func(allowed int32) {
		t.Helper()
		b, err := budgets.Get(t.Context(), "guard", metav1.GetOptions{})
		if err == nil {
			b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1}
			_, err = budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	guard(0)
	return guard
}

// uncounted makes a budget that no controller has seen.
func uncounted(t *testing.T, s *apiServer) {
	t.Helper()
	if _, err := s.client(t, admin).PolicyV1().PodDisruptionBudgets("apps").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "uncounted"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"uncounted": "true"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// ending returns the pods that are about to end, in the order of their deletion. No
// kubelet runs, so nothing else changes them.
func ending(t *testing.T, s *apiServer) []string {
	t.Helper()
	list, err := s.client(t, admin).CoreV1().Pods("apps").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
	version := func(p corev1.Pod) string { return strings.Repeat("0", 20-len(p.ResourceVersion)) + p.ResourceVersion }
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(version(a), version(b)) })
	var names []string
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

// endOf returns the end of a pod's grace period.
func endOf(t *testing.T, s *apiServer, name string) time.Time {
	t.Helper()
	pod, err := s.client(t, admin).CoreV1().Pods("apps").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp == nil {
		t.Fatalf("pod %s: %v, end %v; want an end", name, err, pod.DeletionTimestamp)
	}
	return pod.DeletionTimestamp.Time
}

func evicted(t *testing.T, s *apiServer, name string) {
	t.Helper()
	eventually(t, "pod "+name+" is evicted", func(context.Context) error {
		if gone := ending(t, s); !slices.Contains(gone, name) {
			return errorf("gone are %v", gone)
		}
		return nil
	})
}

// reported returns an error unless exactly these pods have events with the reason.
func reported(ctx context.Context, t *testing.T, s *apiServer, reason string, want ...string) error {
	t.Helper()
	list, err := s.client(t, admin).EventsV1().Events("apps").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var pods []string
	for _, e := range list.Items {
		if e.Reason == reason {
			pods = append(pods, e.Regarding.Name)
		}
	}
	if slices.Sort(pods); !slices.Equal(slices.Compact(pods), want) {
		return errorf("events %s of %v, want of %v", reason, pods, want)
	}
	return nil
}

// holder returns the leader.
func holder(t *testing.T, s *apiServer) string {
	t.Helper()
	lease, err := s.client(t, admin).CoordinationV1().Leases(installed).Get(t.Context(), evictionOf, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		t.Fatalf("lease %+v: %v", lease, err)
	}
	return *lease.Spec.HolderIdentity
}

// metricsNow returns the metrics of a replica at /metrics.
func (r *replica) metricsNow(ctx context.Context, t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "cpupool_") {
			ours = append(ours, line)
		}
	}
	return strings.Join(ours, "")
}
