//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestFaults checks that a cluster recovers from faults, and that no user is locked out
// until then.
func TestFaults(t *testing.T) {
	c := start(t, "8c2n")
	c.install(t)
	c.namespace(t, "ops", "management")
	c.namespace(t, "apps", "")
	t.Run("resize", func(t *testing.T) { resize(t, c) })
	t.Run("kubelet", func(t *testing.T) { restartKubelet(t, c) })
	t.Run("webhook", func(t *testing.T) { losesWebhook(t, c) })
	t.Run("certificate", func(t *testing.T) { renew(t, c) })
	t.Run("authority", func(t *testing.T) { rotate(t, c) })
	t.Run("node", func(t *testing.T) { losesNode(t, c) })
}

// grown is the number of shared CPUs of the resized container that no resource counts.
const grown = 300 - 100

// resizeTo asks for another amount of CPU for a pod that runs.
func (c *cluster) resizeTo(t *testing.T, pod *corev1.Pod, patch string) error {
	t.Helper()
	patch = `{"spec":{"containers":[{"name":"app","resources":` + patch + `}]}}`
	_, err := c.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
	return err
}

// resize checks that a resize is refused if no resource would count it, and done if the
// shared pool has the CPUs anyway.
func resize(t *testing.T, c *cluster) {
	c.make(t, "apps", "whole", nil, "2|2")
	c.make(t, "apps", "part", nil, "100m")
	whole, part := c.running(t, "apps", "whole"), c.running(t, "apps", "part")
	before := c.cpus(t, whole)
	err := c.resizeTo(t, whole, `{"requests":{"cpu":"3"},"limits":{"cpu":"3"}}`)
	if want := "counted by an extended resource"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("resize of whole CPUs: %v; want a refusal with %q", err, want)
	}
	if err := c.resizeTo(t, part, `{"requests":{"cpu":"300m"}}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shared container is resized", func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods("apps").Get(ctx, "part", metav1.GetOptions{})
		if err != nil {
			return err
		}
		r := pod.Status.ContainerStatuses[0].Resources
		if r == nil || r.Requests.Cpu().MilliValue() != 300 {
			return fmt.Errorf("its resources are %+v", r)
		}
		return nil
	})
	c.shows(t, nodeName, advertised(grown))
	if after := c.cpus(t, whole); !after.Equal(before) {
		t.Errorf("CPUs of the pod with whole CPUs = %v; want %v", after, before)
	}
}

// restartKubelet checks that the resources and the running pods stay.
func restartKubelet(t *testing.T, c *cluster) {
	whole := c.running(t, "apps", "whole")
	before := c.cpus(t, whole)
	c.run(t, "systemctl", "restart", "kubelet")
	c.shows(t, nodeName, advertised(grown))
	c.make(t, "apps", "next", nil, "1|1") // the kubelet has admitted the others again before it
	next := c.cpus(t, c.running(t, "apps", "next"))
	again := c.running(t, "apps", "whole")
	if again.Status.ContainerStatuses[0].ContainerID != whole.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("container of pod whole changed: %+v; want the same one", again.Status)
	}
	if after := c.cpus(t, again); !after.Equal(before) || next.Overlaps(after) {
		t.Errorf("the pod with whole CPUs runs on %v, before it was %v; the next one on %v", after, before, next)
	}
}

// losesWebhook checks that without the webhook pods of the system are created and others are refused,
// and that the webhook comes back without action.
func losesWebhook(t *testing.T, c *cluster) {
	c.kubectl(t, "kubectl -n "+webhookNamespace+" scale deployment cpupool-webhook --replicas=0")
	eventually(t, "pods of others are refused", func(ctx context.Context) error {
		_, err := c.dryRun(ctx, "apps", nil, "100m")
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("answer %w", errors.Join(err))
		}
		return nil
	})
	if _, err := c.dryRun(t.Context(), "kube-system", nil, "100m"); err != nil {
		t.Errorf("a pod of kube-system is refused: %v", err)
	}
	c.kubectl(t, "kubectl -n "+webhookNamespace+" scale deployment cpupool-webhook --replicas=2")
	c.asks(t, "apps")
	// All of its pods at once, as a node that fails takes them.
	c.kubectl(t, "kubectl -n "+webhookNamespace+" delete pods --all --force --grace-period=0")
	eventually(t, "others are ready", func(ctx context.Context) error { // deleted ones may still answer
		pods, err := c.CoreV1().Pods(webhookNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if n := len(slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !ready(&pod) })); n != 2 {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	c.asks(t, "apps")
}

// asks waits until pods are made as the webhook makes them.
func (c *cluster) asks(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, "the webhook answers", func(ctx context.Context) error {
		pod, err := c.dryRun(ctx, namespace, nil, "100m")
		if err == nil && milli(pod, shared) != 100 {
			err = fmt.Errorf("a pod requests %v", pod.Spec.Containers[0].Resources.Requests)
		}
		return err
	})
}

// losesNode checks a Node that is deleted and comes back with its kubelet. It shows its pools again, and takes pods next to its
// running ones.
func losesNode(t *testing.T, c *cluster) {
	old, err := c.node(t.Context(), nodeName)
	if err != nil {
		t.Fatal(err)
	}
	before := c.cpus(t, c.running(t, "apps", "whole"))
	c.kubectl(t, "kubectl delete node "+nodeName)
	c.run(t, "systemctl", "restart", "kubelet")
	eventually(t, "there is another Node", func(ctx context.Context) error {
		node, err := c.node(ctx, nodeName)
		if err == nil && node.UID == old.UID {
			err = errors.New("it is the same")
		}
		return err
	})
	c.shows(t, nodeName, advertised(grown))
	c.asks(t, "apps")
	// Controllers take the pods of a Node that is away for longer.
	if after := c.cpus(t, c.running(t, "apps", "whole")); !after.Equal(before) {
		t.Errorf("CPUs of the pod with whole CPUs = %v; want %v", after, before)
	}
	c.make(t, "apps", "returned", nil, "1|1")
	if got := c.cpus(t, c.running(t, "apps", "returned")); got.Len() != 1 || got.Overlaps(before) {
		t.Errorf("a new pod runs on %v; want one CPU without %v", got, before)
	}
}
