//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// remove checks that no part of cpupoold is left, and that running pods go on as they would
// without it.
func remove(t *testing.T, c *cluster) {
	pods, err := c.CoreV1().Pods("ops").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("there are no pods to go on: %v", err)
	}
	guide := read(t, "docs/how-to/uninstall.md")
	guide.follow(t, c,
		"kubectl delete -f deploy/webhook/admission.yaml",
		"kubectl delete -f deploy/webhook/trust.yaml",
		"kubectl delete -f deploy/webhook/networkpolicy.yaml -f deploy/webhook/webhook.yaml --ignore-not-found",
		"kubectl --namespace cpupoold delete daemonset cpupoold",
		"kubectl apply -f deploy/uninstall/restore.yaml",
		"kubectl --namespace cpupoold rollout status daemonset cpupoold-restore",
		"kubectl delete -f deploy/uninstall/restore.yaml -f deploy/rbac.yaml -f deploy/daemonset.yaml --ignore-not-found")
	for _, name := range []string{daemonNamespace, webhookNamespace} {
		eventually(t, "namespace "+name+" is gone", func(ctx context.Context) error {
			_, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				return errors.New("it is there")
			}
			if !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
	node, err := c.node(t.Context(), nodeName)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name := range list {
			if strings.Contains(string(name), "openshift.io/") {
				t.Errorf("the node still has %s; want no resource of the pools", name)
			}
		}
	}
	if status := condition(node); status != "" || len(node.Spec.Taints) > 0 {
		t.Errorf("condition, taints of the node = %q, %v; want none", status, node.Spec.Taints)
	}
	kinds := "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings," +
		"clusterroles,clusterrolebindings"
	if left := c.kubectl(t, "kubectl get "+kinds+" -o name | grep cpupool || true"); left != "" {
		t.Errorf("objects in the cluster = %s; want none", left)
	}
	if sets := c.run(t, "sh", "-euc", "find /sys/fs/cgroup/kubepods.slice -name cpuset.cpus.effective -exec cat {} + | sort -u"); sets != "0-7" {
		t.Errorf("cgroups of pods have the CPUs %q; want 0-7", sets)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		// As the kubelet has made it, which has seen no request.
		if got, want := c.file(t, pod, "cpu.weight"), strconv.FormatUint(cgroup.WeightQuadratic(2), 10); got != want {
			t.Errorf("weight of pod %s = %s; want %s", pod.Name, got, want)
		}
	}
	if left := c.run(t, "find", "/var/lib/cpupoold", "-type", "f", "-size", "+0"); left != "" {
		t.Errorf("files = %s; want none", left)
	}
	c.make(t, "apps", "afterwards", nil, "2|2")
	c.running(t, "apps", "afterwards")
}
