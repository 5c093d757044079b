//go:build apiserver

package apiserver_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cpupoold/cpupoold/test/processes"
)

// podWith returns a pod with pod-level resources, and containers a, b and so on. Resources
// have the format of newPod.
func podWith(name string, annotations map[string]string, own string, containers ...string) *corev1.Pod {
	pod := newPod(name, annotations, own)
	resources := pod.Spec.Containers[0].Resources
	pod.Spec.Resources, pod.Spec.Containers = &resources, nil
	for i, text := range containers {
		c := newPod(name, nil, text).Spec.Containers[0]
		c.Name = string(rune('a' + i))
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// TestPodLevel checks pods with spec.resources: the values that the API server adds, the QoS
// class, the sum of the pools' resources, and refused resizes.
func TestPodLevel(t *testing.T) {
	s, _ := startWebhook(t)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	t.Run("counted", func(t *testing.T) { countTotals(t, s) })
	t.Run("no CPU is left", func(t *testing.T) {
		got, err := create(t, s, "apps", podWith("full", nil, "cpu=5 memory=1Gi | cpu=5 memory=1Gi", "cpu=3 | cpu=3", "cpu=2 | cpu=2", ""))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got.Annotations[warning], `container "c" gets no CPU`) {
			t.Errorf("annotations %v, want a warning about container c", got.Annotations)
		}
	})
	t.Run("resize", func(t *testing.T) { resizeTotals(t, s) })
}

// TestPodLevelEarlier checks an API server that behaves as Kubernetes 1.36. It sets no limits in
// spec.resources, so a pod with requests only is Burstable.
func TestPodLevelEarlier(t *testing.T) {
	s := &apiServer{address: processes.StartAPIServer(t, tokens, append(serverArgs(), "--emulated-version=1.36")...).Address}
	installWebhook(t, s)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	for name, c := range map[string]struct {
		pod   *corev1.Pod
		class corev1.PodQOSClass
		want  string
	}{
		"limits only":   {podWith("limits", nil, "| cpu=4 memory=1Gi", ""), corev1.PodQOSGuaranteed, guaranteed + "=4k"},
		"requests only": {podWith("requests", nil, "cpu=2 memory=1Gi", "cpu=1 memory=1Gi | cpu=1 memory=1Gi"), corev1.PodQOSBurstable, "cpu=1 " + shared + "=2k"},
	} {
		got := becomes(t, s, "apps", c.pod, c.want)
		if got.Status.QOSClass != c.class {
			t.Errorf("%s: class %s, want %s", name, got.Status.QOSClass, c.class)
		}
	}
}

// countTotals checks the completed spec.resources, the QoS class and the pools' resources.
func countTotals(t *testing.T, s *apiServer) {
	for name, c := range map[string]struct {
		pod *corev1.Pod
		// own are the CPU request and limit of the stored pod.
		own   string
		class corev1.PodQOSClass
		// want are the requests of containers without memory.
		want []string
	}{
		"no container has resources": {
			podWith("bare", nil, "cpu=4 memory=1Gi | cpu=4 memory=1Gi", "", ""), "4 4", corev1.PodQOSGuaranteed,
			[]string{guaranteed + "=4k", ""},
		},
		"whole CPUs of a container": {
			podWith("part", nil, "cpu=4 memory=1Gi | cpu=4 memory=1Gi", "", "cpu=1 | cpu=1"), "4 4", corev1.PodQOSGuaranteed,
			[]string{guaranteed + "=3k", "cpu=1 " + guaranteed + "=1k"},
		},
		"limits only": {
			podWith("limits", nil, "| cpu=4 memory=1Gi", ""), "4 4", corev1.PodQOSGuaranteed,
			[]string{guaranteed + "=4k"},
		},
		"limits, and a request of a container": {
			podWith("burstable", nil, "| cpu=4 memory=1Gi", "cpu=2 | cpu=2"), "2 4", corev1.PodQOSBurstable,
			[]string{"cpu=2 " + shared + "=2k"},
		},
		"requests only": {
			podWith("requests", nil, "cpu=2 memory=1Gi", "cpu=1 memory=1Gi | cpu=1 memory=1Gi"), "2 2", corev1.PodQOSGuaranteed,
			[]string{"cpu=1 " + guaranteed + "=2k"},
		},
		"memory only": {
			podWith("memory", nil, "memory=1Gi | memory=1Gi", "cpu=4 | cpu=4"), "4 4", corev1.PodQOSGuaranteed,
			[]string{"cpu=4 " + guaranteed + "=4k"},
		},
		"a fraction": {
			podWith("fraction", nil, "cpu=2500m memory=1Gi | cpu=2500m memory=1Gi", "cpu=1 | cpu=1", ""), "2500m 2500m", corev1.PodQOSGuaranteed,
			[]string{"cpu=1 " + guaranteed + "=1k " + shared + "=1500", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := create(t, s, "apps", c.pod)
			if err != nil {
				t.Fatal(err)
			}
			r := got.Spec.Resources
			if own := r.Requests.Cpu().String() + " " + r.Limits.Cpu().String(); own != c.own || got.Status.QOSClass != c.class {
				t.Errorf("CPU of the pod %s, class %s; want %s and %s", own, got.Status.QOSClass, c.own, c.class)
			}
			counted := int64(0)
			for i := range got.Spec.Containers {
				container := &got.Spec.Containers[i]
				if requests := requestsOf(container); requests != c.want[i] {
					t.Errorf("container %s requests %q, want %q", container.Name, requests, c.want[i])
				}
				for _, pool := range []corev1.ResourceName{guaranteed, shared} {
					q := container.Resources.Requests[pool]
					counted += q.Value()
				}
			}
			if total := r.Requests.Cpu().MilliValue(); counted != total {
				t.Errorf("the pools count %d thousandths, want %d", counted, total)
			}
		})
	}
}

// resizeTotals resizes pods of countTotals, and a management pod.
func resizeTotals(t *testing.T, s *apiServer) {
	if _, err := create(t, s, "infra", podWith("management", management(), "memory=1Gi | memory=2Gi", "cpu=400m")); err != nil {
		t.Fatal(err)
	}
	own := func(cpu, memory string) string {
		amounts := fmt.Sprintf(`{"cpu":%q,"memory":%q}`, cpu, memory)
		return fmt.Sprintf(`{"spec":{"resources":{"requests":%s,"limits":%[1]s}}}`, amounts)
	}
	container := func(name, request, limit string) string {
		return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"resources":{"requests":{"cpu":%q},"limits":{"cpu":%q}}}]}}`, name, request, limit)
	}
	for name, c := range map[string]struct{ namespace, pod, patch, want string }{
		"more CPUs":                     {"apps", "bare", own("6", "1Gi"), "the CPU request in spec.resources cannot be resized from 4 CPUs to 6 CPUs"},
		"more memory":                   {"apps", "bare", own("4", "2Gi"), ""},
		"whole CPUs of a sharer":        {"apps", "bare", container("b", "2", "2"), `container "b" cannot be resized from 0 CPUs to 2 CPUs`},
		"a sharer":                      {"apps", "bare", container("b", "500m", "1"), ""},
		"whole CPUs that are no longer": {"apps", "part", container("b", "1", "2"), `the CPU limit of container "b" cannot be resized from 1 CPUs to 2 CPUs`},
		"whole to whole":                {"apps", "part", container("b", "2", "2"), ""},
		"a shared pod":                  {"apps", "burstable", `{"spec":{"resources":{"requests":{"cpu":"3"}}}}`, ""},
		"CPU for a management pod": {"infra", "management", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`,
			`the pod is counted by workload type "management", and the CPU request in spec.resources cannot be resized from 0 CPUs to 2 CPUs`},
		"memory for a management pod": {"infra", "management", `{"spec":{"resources":{"limits":{"memory":"3Gi"}}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.client(t, alice).CoreV1().Pods(c.namespace).Patch(t.Context(), c.pod, types.StrategicMergePatchType, []byte(c.patch),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "resize")
			if c.want != "" {
				refusedWith(t, "resize of "+c.pod, err, c.want)
			} else if err != nil {
				t.Errorf("resize of %s: %v", c.pod, err)
			}
		})
	}
}
