//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestLife is the life of cpupoold in a cluster, from the installation to the removal. The steps build on each other.
func TestLife(t *testing.T) {
	c := start(t, "8c2n")
	t.Run("install", func(t *testing.T) { c.install(t) })
	if t.Failed() {
		return
	}
	c.namespace(t, "ops", "management")
	c.namespace(t, "apps", "")
	t.Run("management", func(t *testing.T) { manage(t, c) })
	t.Run("not allowed", func(t *testing.T) { notAllowed(t, c) })
	t.Run("full", func(t *testing.T) { fill(t, c) })
	t.Run("see", func(t *testing.T) { see(t, c) })
	t.Run("explain", func(t *testing.T) { explain(t, c) })
	t.Run("quota", func(t *testing.T) { quotas(t, c) })
	t.Run("remove", func(t *testing.T) { remove(t, c) })
}

// manage checks that the pods of a Deployment are on management CPUs, with their weight, and count no CPU of the
// scheduler's.
func manage(t *testing.T, c *cluster) {
	const name = "monitor"
	labels, replicas := map[string]string{"app": name}, int32(2)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: management()}, Spec: spec("500m|600m")},
	}}
	if _, err := c.AppsV1().Deployments("ops").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var pods *corev1.PodList
	eventually(t, "both pods run", func(ctx context.Context) (err error) {
		if pods, err = c.CoreV1().Pods("ops").List(ctx, metav1.ListOptions{LabelSelector: "app=" + name}); err != nil {
			return err
		}
		up := 0
		for i := range pods.Items {
			if ready(&pods.Items[i]) {
				up++
			}
		}
		if up != int(replicas) || len(pods.Items) != int(replicas) {
			return fmt.Errorf("%d of %d pods are ready", up, len(pods.Items))
		}
		return nil
	})
	for i := range pods.Items {
		pod := &pods.Items[i]
		if cpu, of := milli(pod, corev1.ResourceCPU), milli(pod, cores); cpu != 0 || of != 500 {
			t.Errorf("pod %s requests %d of cpu and %d of %s; want 0 and 500", pod.Name, cpu, of, cores)
		}
		if got, want := c.cpus(t, pod), cpuset.Range(0, 1); !got.Equal(want) {
			t.Errorf("pod %s runs on %v; want %v", pod.Name, got, want)
		}
		if got, want := c.file(t, pod, "cpu.max"), "60000 100000"; got != want {
			t.Errorf("cpu.max of pod %s = %s; want %s", pod.Name, got, want)
		}
		if got, want := c.file(t, pod, "cpu.weight"), strconv.FormatUint(cgroup.WeightQuadratic(512), 10); got != want {
			t.Errorf("weight of pod %s = %s; want %s", pod.Name, got, want)
		}
	}
}

// notAllowed checks that no pod gets management CPUs in a namespace that does not allow
// it.
func notAllowed(t *testing.T, c *cluster) {
	pod := c.make(t, "apps", "outsider", management(), "200m")
	if of, in := milli(pod, cores), milli(pod, shared); of != 0 || in != 200 {
		t.Errorf("the pod requests %d of %s and %d of %s; want 0 and 200", of, cores, in, shared)
	}
	if pod.Annotations["workload.openshift.io/warning"] == "" {
		t.Errorf("annotations of the pod = %v; want the reason", pod.Annotations)
	}
	pod = c.running(t, "apps", "outsider")
	if got, want := c.cpus(t, pod), cpuset.Range(2, 3); !got.Equal(want) {
		t.Errorf("the pod runs on %v; want %v", got, want)
	}
}

// fill creates pods until no whole CPUs are free. The next pod waits, and an event names the
// missing resource.
func fill(t *testing.T, c *cluster) {
	names := []string{"whole-1", "whole-2"}
	var used cpuset.Set
	for _, name := range names {
		// One after the other: the simulation has them in this order.
		c.make(t, "apps", name, nil, "2|2")
		got := c.cpus(t, c.running(t, "apps", name))
		if got.Len() != 2 || !got.IsSubsetOf(cpuset.Range(4, 7)) || got.Overlaps(used) {
			t.Errorf("pod %s runs on %v; want two of 4-7 without %v", name, got, used)
		}
		used = used.Union(got)
	}
	c.make(t, "apps", "late", nil, "1|1")
	c.waitsFor(t, "apps", "late", guaranteed)
	t.Run("explain", func(t *testing.T) {
		explainPending(t, c, "late", "container app of late would have exclusive CPUs of the guaranteed pool, because it requests 1 whole CPU in a Guaranteed pod.", guaranteed)
	})
	t.Run("simulate", func(t *testing.T) { plan(t, c) })
	t.Run("size", func(t *testing.T) { predict(t, c) })
	if err := c.CoreV1().Pods("apps").Delete(t.Context(), names[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := c.cpus(t, c.running(t, "apps", "late")); got.Len() != 1 || !got.IsSubsetOf(cpuset.Range(4, 7)) {
		t.Errorf("pod late runs on %v; want one of 4-7", got)
	}
}
