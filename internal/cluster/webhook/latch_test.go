package webhook

import (
	"context"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// seen is a cache that has seen what its reader has.
type seen struct {
	cache.Cache
	client.Reader
}

func (s seen) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	return s.Reader.Get(ctx, key, into, opts...)
}

func (s seen) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return s.Reader.List(ctx, into, opts...)
}

const sharedCPUs = "openshift.io/shared-cpus"

// replicaOf is a replica that writes to the cluster, and sees it or an earlier one.
func replicaOf(t *testing.T, cluster client.Client, sees client.Reader) *state {
	t.Helper()
	return &state{
		switches: admission.Switches{SharedCPUs: admission.SwitchAuto},
		latches:  client.ObjectKey{Namespace: objectName, Name: latchesName},
		cache:    seen{Reader: sees}, writer: cluster, version: newest, count: newCounters(prometheus.NewRegistry()), log: slog.New(slog.DiscardHandler), known: make(chan struct{}),
	}
}

// newest is the version of an API server.
func newest(context.Context) (*version.Info, error) {
	return &version.Info{Major: "1", Minor: "37"}, nil
}

func clusterOf(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
}

func advertising(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{sharedCPUs: resource.MustParse("4k")}},
	}
}

func unlatched() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: objectName, Name: latchesName}}
}

// sharedOn returns a replica's setting of SharedCPUs after a pass.
func sharedOn(t *testing.T, s *state) bool {
	t.Helper()
	settings, known := s.Settings()
	if !known {
		t.Error("nothing is known after a pass")
	}
	return settings.SharedCPUs
}

// A latch counts when it is stored, and holds for a replica that starts later.
func TestLatchIsStoredFirst(t *testing.T) {
	cluster := clusterOf(advertising("a"), unlatched())
	first := replicaOf(t, cluster, cluster)
	for pass, want := range []bool{false, true, true} {
		if err := first.pass(t.Context(), true); err != nil {
			t.Fatalf("pass %d: %v", pass, err)
		}
		if got := sharedOn(t, first); got != want {
			t.Errorf("pass %d: on %t, want %t", pass, got, want)
		}
	}
	second := replicaOf(t, cluster, cluster)
	if err := second.pass(t.Context(), true); err != nil || !sharedOn(t, second) {
		t.Errorf("a replica that starts later: on %t, %v", sharedOn(t, second), err)
	}
}

// TestLatchWithoutDaemon checks that nodes on which no daemon can run keep no latch open, as the
// cache holds them, and that their pods get no resource.
func TestLatchWithoutDaemon(t *testing.T) {
	windows := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "windows"}}}
	labelled := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: map[string]string{"type": "virtual-kubelet"}}}
	tainted := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "virtual-kubelet.io/provider"}}}}
	objects := []client.Object{advertising("a"), unlatched()}
	for _, n := range []*corev1.Node{windows, labelled, tainted} {
		slim, err := slimNode(admission.Switches{})(n)
		if err != nil {
			t.Fatal(err)
		}
		object, ok := slim.(*corev1.Node)
		if !ok {
			t.Fatalf("the cache holds %T", slim)
		}
		object.ResourceVersion = ""
		objects = append(objects, object)
	}
	cluster := clusterOf(objects...)
	s := replicaOf(t, cluster, cluster)
	for range 2 {
		if err := s.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if !sharedOn(t, s) {
		t.Error("nodes without a daemon keep the latch open")
	}
	settings, _ := s.Settings()
	for _, name := range []string{"w", "v", "t"} {
		if !settings.WithoutDaemon[name] {
			t.Errorf("settings do not have node %s", name)
		}
	}
}

// A replica that sees the cluster as it was does not close again what an administrator
// has opened since.
func TestLatchThatWasOpenedStaysOpen(t *testing.T) {
	cluster, earlier := clusterOf(advertising("a"), unlatched()), clusterOf(advertising("a"), unlatched())
	var stored corev1.ConfigMap
	key := client.ObjectKeyFromObject(unlatched())
	if err := cluster.Get(t.Context(), key, &stored); err != nil {
		t.Fatal(err)
	}
	stored.Data = map[string]string{"opened": "by an administrator"}
	if err := cluster.Update(t.Context(), &stored); err != nil {
		t.Fatal(err)
	}
	behind := replicaOf(t, cluster, earlier)
	if err := behind.pass(t.Context(), true); err != nil {
		t.Errorf("a conflict is an error: %v", err)
	}
	if err := cluster.Get(t.Context(), key, &stored); err != nil || len(stored.Data) != 1 {
		t.Errorf("latches %v, %v; want them as the administrator has left them", stored.Data, err)
	}
}

// TestLatchWaits checks that nothing is stored during the pause after a failure, and that the
// present settings are served.
func TestLatchWaits(t *testing.T) {
	cluster := clusterOf(advertising("a"), unlatched())
	s := replicaOf(t, cluster, cluster)
	if err := s.pass(t.Context(), false); err != nil || sharedOn(t, s) {
		t.Errorf("on %t, %v; want off", sharedOn(t, s), err)
	}
	var stored corev1.ConfigMap
	if err := cluster.Get(t.Context(), s.latches, &stored); err != nil || len(stored.Data) > 0 {
		t.Errorf("latches %v, %v; want none", stored.Data, err)
	}
}

// TestLatchesAreMissing checks that no latch closes without the ConfigMap, and that the present
// settings are served.
func TestLatchesAreMissing(t *testing.T) {
	cluster := clusterOf(advertising("a"))
	s := replicaOf(t, cluster, cluster)
	if err := s.pass(t.Context(), true); err == nil || sharedOn(t, s) {
		t.Errorf("on %t, error %v; want an error, and off", sharedOn(t, s), err)
	}
	if err := cluster.Get(t.Context(), s.latches, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap: %v, want none", err)
	}
}

// TestGuaranteedLatchOutlastsItsNode checks that a node without a guaranteed pool does not hold
// the latch open, and that the resource stays on when the last node that advertises it goes.
func TestGuaranteedLatchOutlastsItsNode(t *testing.T) {
	worker := advertising("worker")
	worker.Status.Allocatable["openshift.io/guaranteed-cpus"] = resource.MustParse("2k")
	cluster := clusterOf(advertising("control-plane"), worker, unlatched())
	s := replicaOf(t, cluster, cluster)
	s.switches.GuaranteedCPUs = admission.SwitchAuto
	registry := prometheus.NewRegistry()
	s.count = newCounters(registry)
	check := func(state string, want bool, lacking float64) {
		t.Helper()
		if err := s.pass(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if settings, _ := s.Settings(); settings.GuaranteedCPUs != want {
			t.Errorf("%s: on %t, want %t", state, settings.GuaranteedCPUs, want)
		}
		if got := lackingGuaranteed(t, registry); got != lacking {
			t.Errorf("%s: %v nodes lack the resource, want %v", state, got, lacking)
		}
	}
	check("before the latch is stored", false, 0)
	check("latched", true, 0)
	if err := cluster.Delete(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	check("the worker is gone", true, 1)
}

// lackingGuaranteed returns the metric of nodes without the guaranteed resource.
func lackingGuaranteed(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "cpupool_webhook_resource_lacking_nodes" && m.GetLabel()[0].GetValue() == "openshift.io/guaranteed-cpus" {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatal("the metric does not exist")
	return 0
}
