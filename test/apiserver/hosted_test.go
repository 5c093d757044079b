//go:build apiserver

package apiserver_test

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// The annotations that hold the chosen values.
const (
	sizeKey    = "hosted-priority.cpupoold.io/size"
	planeKey   = "hosted-priority.cpupoold.io/control-plane-class"
	etcdKey    = "hosted-priority.cpupoold.io/etcd-class"
	hyperShift = "hypershift.openshift.io"
)

// TestHostedPriority checks that pods of hosted control planes get the classes of their cluster's size. The steps build on
// each other.
func TestHostedPriority(t *testing.T) {
	s := startAPIServer(t)
	for _, file := range []string{"webhook.yaml", "hosted-priority/rights.yaml", "hosted-priority/classes.yaml"} {
		install(t, s, file)
	}
	never := corev1.PreemptNever
	for name, value := range map[string]int32{"hypershift-control-plane": 100000000, "hypershift-api-critical": 100001000, "hypershift-etcd": 100002000,
		"hypershift-operator": 100003000, "mine": 150000000} {
		if _, err := s.client(t, admin).SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &never,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	namespaceNamed(t, s, "clusters", "")
	namespaceNamed(t, s, "clusters-a", "")
	namespaceNamed(t, s, "other", "")
	readyNode(t, s, "n1")
	setHosted(t, s, "enabled: true")
	first := startReplica(t, s)
	install(t, s, "admission.yaml")
	h := &hosted{s, t}

	h.gets("without HyperShift", "clusters-a", "hypershift-control-plane", "hypershift-control-plane", 100000000)

	data, err := os.ReadFile("testdata/hypershift-crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, "hypershift-crds.yaml", data)
	h.make("HostedCluster", "hostedclusters", "a", map[string]any{})
	h.make("NodePool", "nodepools", "a-1", map[string]any{"clusterName": "a", "replicas": int64(8)})
	h.make("NodePool", "nodepools", "a-2", map[string]any{"clusterName": "a", "autoScaling": map[string]any{"min": int64(5), "max": int64(90)}})
	h.annotated("a", map[string]string{sizeKey: "s", planeKey: "hypershift-s", etcdKey: "hypershift-etcd-s"})
	h.gets("13 nodes", "clusters-a", "hypershift-control-plane", "hypershift-s", 2000000)
	h.gets("13 nodes", "clusters-a", "hypershift-api-critical", "hypershift-s", 2000000)
	h.gets("13 nodes", "clusters-a", "hypershift-etcd", "hypershift-etcd-s", 2500000)
	h.gets("never HyperShift's operator", "clusters-a", "hypershift-operator", "hypershift-operator", 100003000)
	h.gets("nor another class", "clusters-a", "mine", "mine", 150000000)
	h.gets("nor one of the system", "clusters-a", "system-cluster-critical", "system-cluster-critical", 2000000000)
	h.gets("nor pods without one", "clusters-a", "", "", 0)
	h.gets("nor in another namespace", "other", "hypershift-etcd", "hypershift-etcd", 100002000)

	h.patch("nodepools", "a-2", `{"status":{"replicas":60}}`, "status")
	h.annotated("a", map[string]string{sizeKey: "l", planeKey: "hypershift-l", etcdKey: "hypershift-etcd-l"})
	h.gets("68 nodes", "clusters-a", "hypershift-etcd", "hypershift-etcd-l", 4500000)
	h.patch("nodepools", "a-2", `{"status":{"replicas":0}}`, "status")
	h.patch("nodepools", "a-1", `{"spec":{"replicas":1}}`)
	h.patch("hostedclusters", "a", `{"metadata":{"annotations":{"hypershift.openshift.io/etcd-priority-class":"mine"}}}`)
	h.annotated("a", map[string]string{sizeKey: "l", planeKey: "hypershift-l", etcdKey: "mine"}) // never lowered
	h.gets("overridden", "clusters-a", "hypershift-etcd", "mine", 150000000)
	h.patch("hostedclusters", "a", `{"metadata":{"annotations":{"hypershift.openshift.io/etcd-priority-class":null,"hypershift.openshift.io/control-plane-priority-class":"mine"}}}`)
	h.annotated("a", map[string]string{sizeKey: "l", planeKey: "mine", etcdKey: ""})
	h.gets("etcd would be below", "clusters-a", "hypershift-etcd", "hypershift-etcd", 100002000)
	h.patch("hostedclusters", "a", `{"metadata":{"annotations":{"hypershift.openshift.io/etcd-priority-class":"mine","hypershift.openshift.io/control-plane-priority-class":null}}}`)

	h.patch("hostedclusters", "a", `{"metadata":{"annotations":{"hosted-priority.cpupoold.io/opt-out":"true"}}}`)
	h.annotated("a", map[string]string{sizeKey: "", planeKey: "", etcdKey: ""})
	h.gets("opted out", "clusters-a", "hypershift-etcd", "hypershift-etcd", 100002000)

	t.Run("policy", func(t *testing.T) { onlyAnnotates(t, s) })
	first.end(t)
	t.Run("ClusterSizingConfiguration", func(t *testing.T) { (&hosted{s, t}).sizing() })
}

// onlyAnnotates checks that the webhook's account can change its annotations of HostedClusters, and nothing
// else.
func onlyAnnotates(t *testing.T, s *apiServer) {
	config := s.config(admin)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + installed + ":" + installed, Groups: []string{"system:serviceaccounts", "system:authenticated"},
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	of := client.Resource(schema.GroupVersionResource{Group: hyperShift, Version: "v1beta1", Resource: "hostedclusters"}).Namespace("clusters")
	for patch, want := range map[string]string{
		`{"metadata":{"annotations":{"hosted-priority.cpupoold.io/size":"xl"}}}`:                       "",
		`{"metadata":{"annotations":{"hosted-priority.cpupoold.io/opt-out":"false"}}}`:                 "changes its own annotations",
		`{"metadata":{"annotations":{"hypershift.openshift.io/etcd-priority-class":null}}}`:            "changes its own annotations",
		`{"metadata":{"annotations":{"hypershift.openshift.io/control-plane-priority-class":"mine"}}}`: "changes its own annotations",
		`{"metadata":{"labels":{"a":"b"}}}`:                                                            "nothing of HostedClusters but annotations",
		`{"metadata":{"finalizers":["a.b/c"]}}`:                                                        "nothing of HostedClusters but annotations",
		`{"spec":{"pausedUntil":"true"}}`:                                                              "nothing of HostedClusters but annotations",
	} {
		_, err := of.Patch(t.Context(), "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", patch, err, want)
		}
	}
}

// sizing checks sizes and classes of HyperShift's own object, which is created after the webhook that
// looks for it.
func (h *hosted) sizing() {
	setHosted(h.t, h.apiServer, "enabled: true, sizesFrom: ClusterSizingConfiguration")
	startReplica(h.t, h.apiServer)
	h.make("HostedCluster", "hostedclusters", "b", map[string]any{})
	h.make("NodePool", "nodepools", "b-1", map[string]any{"clusterName": "b", "replicas": int64(20)})
	namespaceNamed(h.t, h.apiServer, "clusters-b", "")
	h.gets("without sizes", "clusters-b", "hypershift-etcd", "hypershift-etcd", 100002000)
	data, err := os.ReadFile("testdata/hypershift-sizing.yaml")
	if err != nil {
		h.t.Fatal(err)
	}
	apply(h.t, h.apiServer, "hypershift-sizing.yaml", data)
	client, err := dynamic.NewForConfig(h.config(admin))
	if err != nil {
		h.t.Fatal(err)
	}
	size := func(name string, criteria, effects map[string]any) map[string]any {
		return map[string]any{"name": name, "criteria": criteria, "effects": effects}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.hypershift.openshift.io/v1alpha1", "kind": "ClusterSizingConfiguration", "metadata": map[string]any{"name": "cluster"},
		"spec": map[string]any{"sizes": []any{
			size("small", map[string]any{"from": int64(0), "to": int64(10)}, map[string]any{"controlPlanePriorityClassName": "hypershift-s"}),
			size("large", map[string]any{"from": int64(11)}, map[string]any{"APICriticalPriorityClassName": "hypershift-l", "etcdPriorityClassName": "hypershift-etcd-xl"}),
		}},
	}}
	eventually(h.t, "the ClusterSizingConfiguration is made", func(ctx context.Context) error {
		_, err := client.Resource(schema.GroupVersionResource{Group: "scheduling.hypershift.openshift.io", Version: "v1alpha1", Resource: "clustersizingconfigurations"}).
			Create(ctx, o, metav1.CreateOptions{})
		return err
	})
	h.annotated("b", map[string]string{sizeKey: "large", planeKey: "hypershift-s", etcdKey: "hypershift-etcd-xl"})
	h.gets("20 nodes", "clusters-b", "hypershift-etcd", "hypershift-etcd-xl", 5500000)
	h.gets("20 nodes, class of the smaller size", "clusters-b", "hypershift-control-plane", "hypershift-s", 2000000)
	h.gets("20 nodes", "clusters-b", "hypershift-api-critical", "hypershift-l", 4000000)
	h.make("HostedCluster", "hostedclusters", "c", map[string]any{})
	namespaceNamed(h.t, h.apiServer, "clusters-c", "")
	h.annotated("c", map[string]string{sizeKey: "small", planeKey: "hypershift-s", etcdKey: ""})
	h.gets("no nodes, and no class for it", "clusters-c", "hypershift-etcd", "hypershift-etcd", 100002000)
}

// setHosted switches it on in the ConfigMap.
func setHosted(t *testing.T, s *apiServer, hosted string) {
	t.Helper()
	configs := s.client(t, admin).CoreV1().ConfigMaps(installed)
	m, err := configs.Get(t.Context(), installed, metav1.GetOptions{})
	if err == nil {
		text, _, _ := strings.Cut(m.Data["config.yaml"], "hostedPriority:")
		m.Data["config.yaml"] = strings.TrimRight(text, "\n") + "\nhostedPriority: {" + hosted + "}\n"
		_, err = configs.Update(t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hosted is an API server with HyperShift's objects.
type hosted struct {
	*apiServer
	t *testing.T
}

func (h *hosted) of(resource string) dynamic.ResourceInterface {
	h.t.Helper()
	client, err := dynamic.NewForConfig(h.config(admin))
	if err != nil {
		h.t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: hyperShift, Version: "v1beta1", Resource: resource}).Namespace("clusters")
}

// make makes an object, as soon as its kind is served.
func (h *hosted) make(kind, resource, name string, spec map[string]any) {
	h.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": hyperShift + "/v1beta1", "kind": kind, "metadata": map[string]any{"name": name}, "spec": spec}}
	eventually(h.t, kind+" "+name+" is made", func(ctx context.Context) error {
		_, err := h.of(resource).Create(ctx, o, metav1.CreateOptions{})
		return err
	})
}

func (h *hosted) patch(resource, name, patch string, sub ...string) {
	h.t.Helper()
	if _, err := h.of(resource).Patch(h.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...); err != nil {
		h.t.Fatal(err)
	}
}

// annotated waits until the cluster has annotations; "" means no annotation.
func (h *hosted) annotated(name string, want map[string]string) {
	h.t.Helper()
	eventually(h.t, "HostedCluster "+name+" has the chosen values", func(ctx context.Context) error {
		o, err := h.of("hostedclusters").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if got := o.GetAnnotations()[key]; got != want[key] {
				return errorf("%s is %q; want %q", key, got, want[key])
			}
		}
		return nil
	})
}

// gets makes a pod with a class, and waits until pods get the wanted class with its priority. Only the webhook writes the
// annotations with the chosen class, so gets waits for them.
func (h *hosted) gets(when, namespace, class, want string, priority int32) {
	h.t.Helper()
	eventually(h.t, when+": "+class+" is "+want, func(ctx context.Context) error {
		pod := newPod("p", nil, "")
		pod.Spec.PriorityClassName = class
		made, err := h.client(h.t, admin).CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if got := made.Spec.PriorityClassName; got != want || made.Spec.Priority == nil || *made.Spec.Priority != priority {
			return errorf("it has class %q and priority %v", got, made.Spec.Priority)
		}
		return nil
	})
}
