//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPriority checks that the kubelet preempts pods of hosted control planes in the order of their clusters' sizes, on a node with a full
// shared pool. HyperShift's objects are real ones, of CustomResourceDefinitions of their shape; only this test creates pods of them.
func TestPriority(t *testing.T) {
	c := start(t, "8c2n")
	c.install(t)
	p := &priorities{c}
	p.switchOn(t)
	p.hosts(t, "small", 3, "")
	p.hosts(t, "large", 60, "")
	p.hosts(t, "whale", 1, `hosted-priority.cpupoold.io/dedicated: "true"`)
	if !t.Failed() {
		t.Run("order", p.goInOrder)
	}
}

// priorities is a cluster with HyperShift's objects.
type priorities struct{ *cluster }

// switchOn follows the document on a cluster with HyperShift's objects.
func (p *priorities) switchOn(t *testing.T) {
	never := corev1.PreemptNever
	for name, value := range map[string]int32{"hypershift-control-plane": 100000000, "hypershift-api-critical": 100001000, "hypershift-etcd": 100002000} {
		if _, err := p.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &never,
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	crds, err := os.ReadFile("../apiserver/testdata/hypershift-crds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p.plane.write(t, "crds.yaml", string(crds))
	p.kubectl(t, "kubectl apply -f crds.yaml && kubectl wait --for condition=Established --timeout 2m -f crds.yaml")
	read(t, "docs/how-to/hosted-control-planes.md").follow(t, p.cluster, "kubectl apply -k deploy/webhook/hosted-priority")
	configs := p.CoreV1().ConfigMaps(webhookNamespace)
	m, err := configs.Get(t.Context(), "cpupool-webhook", metav1.GetOptions{})
	if err == nil {
		m.Data["config.yaml"] = strings.TrimRight(m.Data["config.yaml"], "\n") + "\nhostedPriority: {enabled: true}\n" // as in the document
		_, err = configs.Update(t.Context(), m, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.kubectl(t, "kubectl -n cpupool-webhook rollout restart deployment cpupool-webhook && kubectl -n cpupool-webhook rollout status deployment cpupool-webhook")
	p.namespace(t, "clusters", "")
}

// hosts makes a HostedCluster with a NodePool, and the namespace of its control plane, and waits until the webhook knows it.
func (p *priorities) hosts(t *testing.T, name string, nodes int, annotation string) {
	t.Helper()
	p.plane.write(t, name+".yaml", fmt.Sprintf(`apiVersion: hypershift.openshift.io/v1beta1
kind: HostedCluster
metadata: {namespace: clusters, name: %[1]s, annotations: {%[3]s}}
spec: {}
---
apiVersion: hypershift.openshift.io/v1beta1
kind: NodePool
metadata: {namespace: clusters, name: %[1]s}
spec: {clusterName: %[1]s, replicas: %[2]d}
`, name, nodes, annotation))
	p.kubectl(t, "kubectl apply -f "+name+".yaml")
	p.kubectl(t, "kubectl -n clusters wait --timeout 2m --for 'jsonpath={.metadata.annotations.hosted-priority\\.cpupoold\\.io/size}' hostedcluster "+name)
	p.namespace(t, "clusters-"+name, "")
}

// runs makes a pod of a control plane that takes more than a fifth of the shared pool, with one of HyperShift's classes, and waits until it runs. It
// must have got the class want.
func (p *priorities) runs(t *testing.T, cluster, name, class, want string) {
	t.Helper()
	s := spec("450m")
	s.PriorityClassName = "hypershift-" + class
	namespace := "clusters-" + cluster
	made, err := p.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: s}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.PriorityClassName != want || milli(made, shared) != 450 {
		t.Fatalf("pod %s/%s has class %s and %d of %s; want %s and 450", namespace, name, made.Spec.PriorityClassName, milli(made, shared), shared, want)
	}
	p.running(t, namespace, name)
}

// left are the pods of control planes, as cluster/name, that are there and do not end, in order.
func (p *priorities) left(ctx context.Context) (names []string, err error) {
	list, err := p.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if cluster, hosted := strings.CutPrefix(list.Items[i].Namespace, "clusters-"); hosted && list.Items[i].DeletionTimestamp == nil {
			names = append(names, cluster+"/"+list.Items[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// goInOrder checks the order of preemption. For each pod of the dedicated cluster one of the others goes: a pod of the smaller
// cluster first, and etcd last in each cluster.
func (p *priorities) goInOrder(t *testing.T) {
	order := []string{"small/api", "small/etcd", "large/api", "large/etcd"}
	// Created in another order than the expected one: neither age nor names decide.
	p.runs(t, "large", "etcd", "etcd", "hypershift-etcd-l")
	p.runs(t, "small", "etcd", "etcd", "hypershift-etcd-xs")
	p.runs(t, "large", "api", "api-critical", "hypershift-l")
	p.runs(t, "small", "api", "api-critical", "hypershift-xs")
	want := slices.Sorted(slices.Values(order))
	for i, next := range order {
		name := fmt.Sprintf("plane-%d", i)
		p.runs(t, "whale", name, "control-plane", "hypershift-dedicated")
		want = append(slices.DeleteFunc(want, func(pod string) bool { return pod == next }), "whale/"+name)
		slices.Sort(want)
		got, err := p.left(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("when %s came, %v were left; want %v", name, got, want)
		}
	}
	// A small pod waits, and no pod ends for it.
	s := spec("450m")
	s.PriorityClassName = "hypershift-etcd"
	if _, err := p.CoreV1().Pods("clusters-small").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: s}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	p.waitsFor(t, "clusters-small", "late", shared)
	want = append(want, "small/late")
	slices.Sort(want)
	if got, err := p.left(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("with one that waits %v are left (%v); want %v", got, err, want)
	}
}
