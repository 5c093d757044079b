//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// quotas checks that ResourceQuotas count and limit the resources of pools, that a quota on cpu
// refuses management pods, and that lint finds it. The quota controller writes and updates all
// amounts. One CPU of the guaranteed pool is free.
func quotas(t *testing.T, c *cluster) {
	t.Run("pools", func(t *testing.T) { c.countPools(t, "quota-pools") })
	t.Run("cpu", func(t *testing.T) { c.countCPU(t, "quota-cpu") })
	for _, name := range []string{"quota-pools", "quota-cpu"} {
		if err := c.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "namespace "+name+" is gone", func(ctx context.Context) error {
			_, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it is there: %w", err)
		})
	}
}

func (c *cluster) countPools(t *testing.T, namespace string) {
	c.namespace(t, namespace, "management")
	c.limit(t, namespace, map[string]string{"requests." + cores: "500", "requests." + shared: "500", "requests." + guaranteed: "1k", "pods": "9"})
	c.make(t, namespace, "management", management(), "400m")
	c.make(t, namespace, "shared", nil, "300m")
	c.make(t, namespace, "exclusive", nil, "1|1")
	for _, name := range []string{"management", "shared", "exclusive"} {
		c.running(t, namespace, name)
	}
	c.used(t, namespace, map[string]string{"requests." + cores: "400", "requests." + shared: "300", "requests." + guaranteed: "1k", "pods": "3"})
	for name, pod := range map[string]struct {
		annotations   map[string]string
		cpus, refusal string
	}{
		"management": {management(), "200m", "requested: requests." + cores + "=200, used: requests." + cores + "=400, limited: requests." + cores + "=500"},
		"shared":     {nil, "201m", "requested: requests." + shared + "=201, used: requests." + shared + "=300, limited: requests." + shared + "=500"},
		"exclusive":  {nil, "1|1", "requested: requests." + guaranteed + "=1k, used: requests." + guaranteed + "=1k, limited: requests." + guaranteed + "=1k"},
	} {
		if _, err := c.create(t, namespace, "second-"+name, pod.annotations, pod.cpus); err == nil || !strings.Contains(err.Error(), pod.refusal) {
			t.Errorf("second %s pod: error %v; want %q", name, err, pod.refusal)
		}
	}
	// The controller releases the amounts of a pod that ends.
	if err := c.CoreV1().Pods(namespace).Delete(t.Context(), "exclusive", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.used(t, namespace, map[string]string{"requests." + guaranteed: "0"})
	c.make(t, namespace, "successor", nil, "1|1")
	c.running(t, namespace, "successor")
	c.used(t, namespace, map[string]string{"requests." + guaranteed: "1k"})
}

func (c *cluster) countCPU(t *testing.T, namespace string) {
	c.namespace(t, namespace, "management")
	c.limit(t, namespace, map[string]string{"requests.cpu": "2"})
	c.make(t, namespace, "shared", nil, "300m") // counts also while the shared pool of the node is full
	c.used(t, namespace, map[string]string{"requests.cpu": "300m"})
	labels, replicas := map[string]string{"app": "refused"}, int32(1)
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: management()}, Spec: spec("400m")},
	}}
	if _, err := c.AppsV1().ReplicaSets(namespace).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ReplicaSet states that the quota refuses its pod", func(ctx context.Context) error {
		set, err := c.AppsV1().ReplicaSets(namespace).Get(ctx, "refused", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range set.Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && strings.Contains(condition.Message, "must specify requests.cpu for: app") {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", set.Status.Conditions)
	})
	const want = "a quota of 2 requests.cpu refuses pods of a workload type"
	if text := c.kubectl(t, c.pluginPath(t)+"kubectl cpupool lint --cluster || test $? = 1"); !strings.Contains(text, want) {
		t.Errorf("findings of lint = %s\nwant %q among them", text, want)
	}
}

// limit creates a ResourceQuota, and waits until the quota controller has its status.
func (c *cluster) limit(t *testing.T, namespace string, hard map[string]string) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{}}}
	none := map[string]string{}
	for name, amount := range hard {
		q.Spec.Hard[corev1.ResourceName(name)] = resource.MustParse(amount)
		none[name] = "0"
	}
	if _, err := c.CoreV1().ResourceQuotas(namespace).Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.used(t, namespace, none)
}

// used waits until the status of the quota has these amounts.
func (c *cluster) used(t *testing.T, namespace string, want map[string]string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the quota of %s has %v", namespace, want), func(ctx context.Context) error {
		q, err := c.CoreV1().ResourceQuotas(namespace).Get(ctx, "q", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, amount := range want {
			if got, counted := q.Status.Used[corev1.ResourceName(name)]; !counted || got.Cmp(resource.MustParse(amount)) != 0 {
				return fmt.Errorf("%s: %s used (counted: %t); want %s", name, got.String(), counted, amount)
			}
		}
		return nil
	})
}
