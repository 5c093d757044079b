//go:build apiserver

package apiserver_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestGuaranteedOnSomeNodes checks the latches of a cluster in which only workers have a
// guaranteed pool. All kinds of nodes exist before the webhook starts. The steps build on
// each other.
func TestGuaranteedOnSomeNodes(t *testing.T) {
	s := startAPIServer(t)
	nodeWith(t, s, "control-plane", cores, shared)
	patchNode(t, s, "control-plane", "", `{"spec":{"taints":[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]}}`)
	nodeWith(t, s, "joining")
	nodeWith(t, s, "worker", cores, shared, guaranteed)
	installWebhook(t, s)

	t.Run("a node is unknown", func(t *testing.T) {
		areLatched(t, s)
		becomes(t, s, "apps", whole("unknown"), "cpu=2")
	})

	t.Run("its daemon reports no resources", func(t *testing.T) {
		patchNode(t, s, "joining", "status", `{"status":{"conditions":[{"type":"CPUPoolsReady","status":"False","reason":"Starting","message":"x"}]}}`)
		areLatched(t, s, guaranteed)
		requested(t, s, whole("x"), "cpu=2 "+guaranteed+"=2k")
		becomes(t, s, "apps", newPod("fraction", nil, "cpu=500m"), "cpu=500m")
		becomes(t, s, "infra", newPod("early", management(), "cpu=400m memory=1Gi"), "cpu=400m")
	})

	t.Run("its daemon reports resources", func(t *testing.T) {
		patchNode(t, s, "joining", "status", `{"status":{"allocatable":{"`+cores+`":"4000","`+shared+`":"4000"}}}`)
		areLatched(t, s, cores, guaranteed, shared)
		requested(t, s, newPod("x", nil, "cpu=500m"), "cpu=500m "+shared+"=500")
		becomes(t, s, "apps", whole("whole"), "cpu=2 "+guaranteed+"=2k")
		becomes(t, s, "infra", newPod("late", management(), "cpu=400m memory=1Gi"), cores+"=400")
	})

	t.Run("the last guaranteed pool goes", func(t *testing.T) {
		if err := s.client(t, admin).CoreV1().Nodes().Delete(t.Context(), "worker", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		// A node without cpupoold shows that the webhook has seen the change.
		nodeWith(t, s, "bare")
		requested(t, s, newPod("x", nil, "cpu=500m"), "cpu=500m")
		areLatched(t, s, cores, guaranteed, shared)
		becomes(t, s, "apps", whole("waits"), "cpu=2 "+guaranteed+"=2k")
	})
}

// whole returns a pod that gets exclusive CPUs.
func whole(name string) *corev1.Pod {
	return newPod(name, nil, "cpu=2 memory=1Gi | cpu=2 memory=1Gi")
}

// patchNode changes a node as an administrator, or a subresource of it.
func patchNode(t *testing.T, s *apiServer, name, subresource, patch string) {
	t.Helper()
	var sub []string
	if subresource != "" {
		sub = append(sub, subresource)
	}
	if _, err := s.client(t, admin).CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, sub...); err != nil {
		t.Fatal(err)
	}
}

// areLatched waits until these latches are closed, and no others.
func areLatched(t *testing.T, s *apiServer, resources ...string) {
	t.Helper()
	want := strings.ReplaceAll(strings.Join(resources, " "), "/", "_")
	eventually(t, "the latches "+want+" are closed", func(ctx context.Context) error {
		m, err := s.client(t, admin).CoreV1().ConfigMaps(installed).Get(ctx, "cpupool-webhook-latches", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := strings.Join(slices.Sorted(maps.Keys(m.Data)), " "); got != want {
			return errorf("closed are %q", got)
		}
		return nil
	})
}

// requested waits until a pod in the namespace apps would get these requests.
func requested(t *testing.T, s *apiServer, pod *corev1.Pod, want string) {
	t.Helper()
	eventually(t, "a pod requests "+want, func(ctx context.Context) error {
		got, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && requests(got) != want {
			err = errorf("it requests %s", requests(got))
		}
		return err
	})
}
