//go:build apiserver

package apiserver_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMutatingPolicy gives the same pods to the webhook and to a policy in the API
// server. The policy has the same rules, except those that CEL cannot express
// (docs/adr/0020).
func TestMutatingPolicy(t *testing.T) {
	s, _ := startWebhook(t)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	install(t, s, "../../test/apiserver/testdata/mutating-policy.yaml")
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	made := func(ctx context.Context, namespace string, pod *corev1.Pod) string {
		got, err := s.client(t, alice).CoreV1().Pods(namespace).Create(ctx, pod.DeepCopy(), dry)
		if err != nil {
			return "refused: " + err.Error()
		}
		return whatCounts(got)
	}
	eventually(t, "the policy is in force", func(ctx context.Context) error {
		if got := made(ctx, "cpupoold", newPod("x", management(), "cpu=400m memory=1Gi")); !strings.Contains(got, cores) {
			return errorf("the pod becomes %s", got)
		}
		return nil
	})
	two := func(init, app string) *corev1.Pod {
		pod := newPod("p", management(), app)
		first := newPod("p", nil, init).Spec.Containers[0]
		first.Name = "init"
		pod.Spec.InitContainers = []corev1.Container{first}
		return pod
	}
	own := newPod("p", map[string]string{target: effect, shares: `{"cpushares":409}`}, "cpu=100m memory=1Gi "+cores+"=400 | "+cores+"=400")
	podLevel := newPod("p", management(), "memory=1Gi")
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Requests: list("1"), Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	for name, pod := range map[string]*corev1.Pod{
		"request":            newPod("p", management(), "cpu=400m memory=1Gi"),
		"limit":              newPod("p", management(), "cpu=400m memory=1Gi | cpu=500m"),
		"limit alone":        newPod("p", management(), "memory=1Gi | cpu=500m"),
		"best effort":        newPod("p", management(), ""),
		"memory":             newPod("p", management(), "memory=1Gi"),
		"small":              newPod("p", management(), "cpu=1500u memory=1Gi"),
		"large":              newPod("p", management(), "cpu=2k memory=1Gi"),
		"Guaranteed":         newPod("p", management(), "cpu=1 memory=1Gi | cpu=1 memory=1Gi"),
		"class would change": newPod("p", management(), "cpu=1"),
		"init container":     two("cpu=20m", "cpu=1 memory=1Gi"),
		"only init":          two("cpu=20m", "memory=1Gi"),
		"none of them":       two("", ""),
		"smuggled":           newPod("p", map[string]string{target: effect, "resources.workload.openshift.io/x": "1"}, "cpu=400m memory=1Gi"),
		"rewritten before":   own,
		"pod level":          podLevel,
		"of no type":         newPod("p", map[string]string{"a": "b"}, "memory=1Gi"),
	} {
		if webhook, policy := made(t.Context(), "infra", pod), made(t.Context(), "cpupoold", pod); policy != webhook {
			t.Errorf("%s: result of the policy differs; webhook:\n%s\npolicy:\n%s", name, webhook, policy)
		}
	}
	// The webhook also removes the values that a LimitRange adds after the policy has
	// removed the request.
	for _, namespace := range []string{"infra", "cpupoold"} {
		if _, err := s.client(t, admin).CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "r"},
			Spec:       corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, DefaultRequest: list("250m")}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for resources, want := range map[string]string{"memory=1Gi": cores + "=250; app", "cpu=400m memory=1Gi": cores + "=400; app"} {
			eventually(t, "the LimitRange of "+namespace, func(ctx context.Context) error {
				if got := made(ctx, namespace, newPod("p", management(), resources)); !strings.Contains(got, want) || strings.Contains(got, "cpu=") {
					return errorf("a pod becomes %s", got)
				}
				return nil
			})
		}
	}
	// The cost of each pod, including the way to the API server.
	for _, namespace := range []string{"infra", "cpupoold"} {
		for _, annotations := range []map[string]string{management(), nil} {
			const times = 200
			pod, began := newPod("p", annotations, "memory=1Gi"), time.Now()
			for range times {
				made(t.Context(), namespace, pod)
			}
			t.Logf("namespace %s, annotations %v: %s a pod", namespace, annotations, time.Since(began)/times)
		}
	}
}

// whatCounts returns the webhook's decisions about a pod, without warnings and without
// resources of the shared and the guaranteed pool.
func whatCounts(pod *corev1.Pod) string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if key != warning {
			fmt.Fprintf(&text, "%s=%s\n", key, pod.Annotations[key])
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if q := list[name]; name != shared && name != guaranteed {
					fmt.Fprintf(&text, "%s %s=%s; ", c.Name, name, q.String())
				}
			}
			text.WriteString("|")
		}
	}
	return text.String()
}
