package evictor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// fakeCluster has nodes, pods and the deployed policy, and answers evictions.
type fakeCluster struct {
	t      *testing.T
	nodes  []corev1.Node
	pods   []corev1.Pod
	policy *admissionregistrationv1.ValidatingAdmissionPolicy // nil: the cluster has no policy
	bind   *admissionregistrationv1.ValidatingAdmissionPolicyBinding

	answers map[string]int // status codes by pod; 201 for others
	asked   []string       // for evictions
}

func (c *fakeCluster) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if key.Name != ownNodePolicy || c.policy == nil {
		return errors.New("not found")
	}
	switch into := into.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		*into = *c.policy
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		*into = *c.bind
	default:
		c.t.Errorf("get %T", into)
	}
	return nil
}

func (c *fakeCluster) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	is := func(field, value string) bool {
		return o.FieldSelector == nil || o.FieldSelector.Matches(fields.Set{field: value})
	}
	switch into := into.(type) {
	case *corev1.NodeList:
		into.Items = slices.DeleteFunc(slices.Clone(c.nodes), func(n corev1.Node) bool { return !is("metadata.name", n.Name) })
	case *corev1.PodList:
		into.Items = slices.DeleteFunc(slices.Clone(c.pods), func(p corev1.Pod) bool { return !is("spec.nodeName", p.Spec.NodeName) })
	default:
		c.t.Errorf("list %T", into)
	}
	return nil
}

// ServeHTTP answers evictions.
func (c *fakeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e policyv1.Eviction
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil || r.Method != http.MethodPost || r.URL.Path != "/api/v1/namespaces/ns/pods/"+e.Name+"/eviction" {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	if e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil || string(*e.DeleteOptions.Preconditions.UID) != "uid-"+e.Name {
		c.t.Errorf("eviction of %s without its UID: %+v", e.Name, e.DeleteOptions)
	}
	c.asked = append(c.asked, e.Name)
	code := c.answers[e.Name]
	if code == 0 {
		code = http.StatusCreated
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(code)
	status := metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: int32(code)}
	if code >= 400 {
		reason := map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 409: metav1.StatusReasonConflict, 429: metav1.StatusReasonTooManyRequests}
		status.Status, status.Reason, status.Message = metav1.StatusFailure, reason[code], "budget"
	}
	if err := json.NewEncoder(w).Encode(status); err != nil {
		c.t.Error(err)
	}
}

func depletedNode(name string, now time.Time) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: workload.DepletedTaint, Value: eviction.Allowed, Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			{Type: eviction.Condition, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(now)},
		}},
	}
}

// newEvictor returns the evictor of a cluster with a depleted node n0 with pods a to h. Pod
// a is the first victim.
func newEvictor(t *testing.T, mode Mode) (*evictor, *fakeCluster, *time.Time) {
	t.Helper()
	now := time.Unix(1_700_000_000, 0)
	c := &fakeCluster{
		t: t, answers: make(map[string]int), nodes: []corev1.Node{depletedNode("n0", now)},
		policy: deployed[*admissionregistrationv1.ValidatingAdmissionPolicy](t, "rbac.yaml", ownNodePolicy),
		bind:   deployed[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, "rbac.yaml", ownNodePolicy),
	}
	for name := range strings.SplitSeq("abcdefgh", "") {
		c.pods = append(c.pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
			Spec:       corev1.PodSpec{NodeName: "n0", Containers: []corev1.Container{{Name: "c"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	core, err := corev1client.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	count := newCounters(prometheus.NewRegistry())
	config := Default()
	config.Eviction, config.After = mode, 0
	return &evictor{
		config: config, nodes: c, live: c, pods: core.RESTClient(), events: events.NewFakeRecorder(100), count: count,
		log: slog.New(slog.DiscardHandler), now: func() time.Time { return now },
	}, c, &now
}

func (c *fakeCluster) evicted(e *evictor, wantHalt halt, want ...string) {
	c.t.Helper()
	c.asked = nil
	if by, err := e.pass(c.t.Context()); by != wantHalt || (err == nil) != (wantHalt == haltedNot) {
		c.t.Errorf("halted by %q: %v; want %q", by, err, wantHalt)
	}
	if !slices.Equal(c.asked, want) {
		c.t.Errorf("asked for evictions of %q; want %q", c.asked, want)
	}
}

func TestOneEvictionInEachPass(t *testing.T) {
	e, c, _ := newEvictor(t, On)
	c.evicted(e, haltedNot, "a")
	c.evicted(e, haltedNot, "b") // a is being deleted, and is not evicted again
	c.answers["c"] = http.StatusNotFound
	c.evicted(e, haltedNot, "c", "d")
}

func TestDryRunEvictsNobody(t *testing.T) {
	e, c, _ := newEvictor(t, DryRun)
	recorder := events.NewFakeRecorder(100)
	e.events = recorder
	for range 2 * len(c.pods) {
		c.evicted(e, haltedNot)
	}
	if n := len(recorder.Events); n != len(c.pods) {
		t.Errorf("%d events; want one of each of %d pods", n, len(c.pods))
	}
}

// TestBudgets checks that pods with a disruption budget do not delay other pods: a pass tries
// only a few of them, and a refused pod gets a pause.
func TestBudgets(t *testing.T) {
	e, c, now := newEvictor(t, On)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		c.answers[name] = http.StatusTooManyRequests
	}
	c.evicted(e, haltedNot, "a", "b", "c", "d", "e")
	c.evicted(e, haltedNot, "f", "g")
	*now = now.Add(11 * time.Second)
	delete(c.answers, "a")
	c.evicted(e, haltedNot, "a")
}

func TestNobodyIsEvicted(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*evictor, *fakeCluster, time.Time)
		by     halt
	}{
		"no policy":        {func(_ *evictor, c *fakeCluster, _ time.Time) { c.policy = nil }, haltedByPolicy},
		"a policy of none": {func(_ *evictor, c *fakeCluster, _ time.Time) { c.policy.Spec.Validations = nil }, haltedByPolicy},
		"too many nodes": {func(_ *evictor, c *fakeCluster, now time.Time) {
			for i := 1; i < 10; i++ {
				n := depletedNode(fmt.Sprintf("n%d", i), now)
				if i > 1 {
					n.Spec.Taints = nil
				}
				c.nodes = append(c.nodes, n)
			}
		}, haltedByNodes},
		"not for long enough": {func(e *evictor, _ *fakeCluster, _ time.Time) { e.config.After = time.Minute }, haltedNot},
		"the cache is behind": {func(e *evictor, c *fakeCluster, _ time.Time) {
			cached := *c
			e.nodes = &cached
			c.nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}}
		}, haltedNot},
	} {
		t.Run(name, func(t *testing.T) {
			e, c, now := newEvictor(t, On)
			tc.change(e, c, *now)
			c.evicted(e, tc.by)
		})
	}
}
