//go:build apiserver

package apiserver_test

import (
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Names that the webhook writes.
const (
	target     = "target.workload.openshift.io/management"
	shares     = "resources.workload.openshift.io/app"
	warning    = "workload.openshift.io/warning"
	effect     = `{"effect":"PreferredDuringScheduling"}`
	cores      = "management.workload.openshift.io/cores"
	shared     = "openshift.io/shared-cpus"
	guaranteed = "openshift.io/guaranteed-cpus"
)

// newPod is a pod of one container, app. resources are name=quantity; a limit stands
// behind a bar.
func newPod(name string, annotations map[string]string, resources string) *corev1.Pod {
	requests, limits, _ := strings.Cut(resources, "|")
	list := func(text string) corev1.ResourceList {
		l := corev1.ResourceList{}
		for field := range strings.FieldsSeq(text) {
			name, amount, _ := strings.Cut(field, "=")
			l[corev1.ResourceName(name)] = resource.MustParse(amount)
		}
		return l
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "app", Image: "x", Resources: corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)},
		}}},
	}
}

func management() map[string]string { return map[string]string{target: effect} }

// create makes a pod as alice, and returns it as it is stored.
func create(t *testing.T, s *apiServer, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return s.client(t, alice).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// requests returns the requests of a pod's first container without memory.
func requests(pod *corev1.Pod) string { return requestsOf(&pod.Spec.Containers[0]) }

func requestsOf(c *corev1.Container) string {
	var all []string
	list := c.Resources.Requests
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if q := list[name]; name != corev1.ResourceMemory {
			all = append(all, string(name)+"="+q.String())
		}
	}
	return strings.Join(all, " ")
}

// becomes checks the result of a pod that alice creates.
func becomes(t *testing.T, s *apiServer, namespace string, pod *corev1.Pod, want string) *corev1.Pod {
	t.Helper()
	got, err := create(t, s, namespace, pod)
	if err != nil {
		t.Fatalf("%s/%s: %v", namespace, pod.Name, err)
	}
	if r := requests(got); r != want {
		t.Errorf("%s/%s requests %s, want %s", namespace, pod.Name, r, want)
	}
	return got
}

// refusedWith checks that an error has the words.
func refusedWith(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want an error with %q", what, err, want)
	}
}

// startWebhook starts an API server and installs the webhook, before there is any node.
func startWebhook(t *testing.T) (*apiServer, *replica) {
	t.Helper()
	s := startAPIServer(t)
	return s, installWebhook(t, s)
}

// installWebhook installs the webhook. The namespaces infra and cpupoold allow management
// pods, apps does not.
func installWebhook(t *testing.T, s *apiServer) *replica {
	t.Helper()
	prepare(t, s)
	first := startReplica(t, s)
	send(t, s)
	return first
}

// prepare installs the objects that must exist before the webhook runs.
func prepare(t *testing.T, s *apiServer) {
	t.Helper()
	letAlice(t, s)
	namespaceNamed(t, s, "cpupoold", "management")
	namespaceNamed(t, s, "infra", "management")
	namespaceNamed(t, s, "apps", "")
	install(t, s, "webhook.yaml")
}

// send lets API servers send pods to the webhook, and waits until this one does.
func send(t *testing.T, s *apiServer) {
	t.Helper()
	install(t, s, "admission.yaml")
	install(t, s, "trust.yaml")
	allow(t, s, "kube-system")
	answers(t, s)
}

// answers waits until pods can be made.
func answers(t *testing.T, s *apiServer) {
	t.Helper()
	eventually(t, "the webhook is trusted", func(ctx context.Context) error {
		_, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, newPod("x", nil, ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// TestWebhook follows a cluster from the installation on. The steps build on each other.
func TestWebhook(t *testing.T) {
	s, first := startWebhook(t)
	t.Run("before the latch", func(t *testing.T) {
		got := becomes(t, s, "infra", newPod("early", management(), "cpu=400m memory=1Gi"), "cpu=400m")
		if !strings.Contains(got.Annotations[warning], "no schedulable node") || got.Annotations[target] != "" {
			t.Errorf("annotations %v, want a warning alone", got.Annotations)
		}
		becomes(t, s, "apps", newPod("early", nil, "cpu=500m"), "cpu=500m")
	})

	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)

	t.Run("on", func(t *testing.T) {
		got := becomes(t, s, "infra", newPod("management", management(), "cpu=400m memory=1Gi | cpu=500m"), cores+"=400")
		if got.Annotations[shares] != `{"cpushares":409,"cpulimit":500}` || got.Status.QOSClass != corev1.PodQOSBurstable {
			t.Errorf("annotations = %v, class = %s; want 409 shares, limit 500, Burstable", got.Annotations, got.Status.QOSClass)
		}
		becomes(t, s, "kube-system", newPod("dns", management(), "cpu=100m memory=1Gi"), cores+"=100")
		becomes(t, s, "apps", newPod("shared", nil, "cpu=500m"), "cpu=500m "+shared+"=500")
		becomes(t, s, "apps", newPod("whole", nil, "cpu=2 memory=1Gi | cpu=2 memory=1Gi"), "cpu=2 "+guaranteed+"=2k")
		becomes(t, s, "apps", newPod("nothing", nil, ""), "")
		got = becomes(t, s, "apps", newPod("not-allowed", management(), "cpu=400m memory=1Gi"), "cpu=400m "+shared+"=400")
		if !strings.Contains(got.Annotations[warning], "namespace has no annotation that allows it") {
			t.Errorf("annotations = %v; want the warning about the namespace", got.Annotations)
		}
	})

	t.Run("autoscalers", func(t *testing.T) { autoscalers(t, s) })

	t.Run("refused", func(t *testing.T) {
		_, err := create(t, s, "infra", newPod("two", map[string]string{target: effect, "target.workload.openshift.io/infra": effect}, "cpu=1"))
		refusedWith(t, "two types", err, "target.workload.openshift.io/")
		_, err = create(t, s, "infra", newPod("malformed", map[string]string{target: "{}"}, "cpu=1 memory=1Gi"))
		refusedWith(t, "malformed effect", err, `"effect"`)
	})

	t.Run("resize", func(t *testing.T) { resizes(t, s) })
	t.Run("trust", func(t *testing.T) { trust(t, s) })

	t.Run("a newcomer", func(t *testing.T) {
		nodeWith(t, s, "n2")
		eventually(t, "the shared resource is withheld", func(ctx context.Context) error {
			pod, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, newPod("x", nil, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && requests(pod) != "cpu=1" {
				err = errorf("the pod requests %s", requests(pod))
			}
			return err
		})
		becomes(t, s, "infra", newPod("late", management(), "cpu=400m memory=1Gi"), cores+"=400")
	})

	t.Run("two replicas, one ends", func(t *testing.T) {
		startReplica(t, s)
		first.end(t)
		eventually(t, "the other one answers, and knows the latches", func(ctx context.Context) error {
			pod, err := s.client(t, alice).CoreV1().Pods("infra").Create(ctx, newPod("x", management(), "cpu=400m memory=1Gi"),
				metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && requests(pod) != cores+"=400" {
				err = errorf("the pod requests %s", requests(pod))
			}
			return err
		})
	})

	t.Run("none answers", func(t *testing.T) {
		noEndpoints(t, s)
		endpoint(t, s, installed, net.JoinHostPort(ownAddress(t), freePort(t)))
		eventually(t, "pods of others are refused", func(ctx context.Context) error {
			_, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, newPod("x", nil, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
				return errorf("answer %w", err)
			}
			return nil
		})
		for _, namespace := range []string{"kube-system", "cpupoold"} {
			becomes(t, s, namespace, newPod("rescue", nil, "cpu=1"), "cpu=1")
		}
		forged := newPod("forged", map[string]string{"target.workload.openshift.io/infra": effect}, "cpu=1 memory=1Gi")
		_, err := create(t, s, "kube-system", forged)
		refusedWith(t, "a type that kube-system does not allow, with no webhook", err, "does not allow workload type infra")
		itself(t, s)
	})

	t.Run("and back", func(t *testing.T) {
		startReplica(t, s)
		answers(t, s)
		becomes(t, s, "infra", newPod("back", management(), "cpu=400m memory=1Gi"), cores+"=400")
	})
}

// itself makes a pod of the webhook's own Deployment, while none of them answers: it is
// a management pod that asks for nothing that a node would have to advertise.
func itself(t *testing.T, s *apiServer) {
	t.Helper()
	c := s.client(t, admin)
	deployment, err := c.AppsV1().Deployments(installed).Get(t.Context(), installed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template := deployment.Spec.Template
	template.Name = "itself"
	pod, err := c.CoreV1().Pods(installed).Create(t.Context(), &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("the webhook's own pod: %v", err)
	}
	if pod.Annotations[target] != effect || pod.Annotations["resources.workload.openshift.io/webhook"] == "" || requests(pod) != "" {
		t.Errorf("the webhook's own pod has the annotations %v and requests %q, want it a management pod that requests no CPU", pod.Annotations, requests(pod))
	}
}

// latched waits until the three latches are closed.
func latched(t *testing.T, s *apiServer) {
	t.Helper()
	eventually(t, "the latches close", func(ctx context.Context) error {
		m, err := s.client(t, admin).CoreV1().ConfigMaps(installed).Get(ctx, "cpupool-webhook-latches", metav1.GetOptions{})
		if err == nil && len(m.Data) != 3 {
			err = errorf("latches %v", m.Data)
		}
		if err != nil {
			return err
		}
		pod, err := s.client(t, alice).CoreV1().Pods("apps").Create(ctx, newPod("x", nil, "cpu=1"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && requests(pod) != "cpu=1 "+shared+"=1k" {
			err = errorf("a pod requests %s", requests(pod))
		}
		return err
	})
}

// allow lets pods of a namespace be management pods.
func allow(t *testing.T, s *apiServer, namespace string) {
	t.Helper()
	namespaces := s.client(t, admin).CoreV1().Namespaces()
	eventually(t, "namespace "+namespace, func(ctx context.Context) error {
		_, err := namespaces.Patch(ctx, namespace, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"workload.openshift.io/allowed":"management"}}}`), metav1.PatchOptions{})
		return err
	})
}

func resizes(t *testing.T, s *apiServer) {
	for _, c := range []struct{ pod, cpu, want string }{
		{"whole", "3", "cannot be resized from 2 CPUs to 3 CPUs"},
		{"shared", "700m", ""},
	} {
		limits := ""
		if c.pod == "whole" {
			limits = `,"limits":{"cpu":"` + c.cpu + `"}`
		}
		patch := `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"` + c.cpu + `"}` + limits + `}}]}}`
		_, err := s.client(t, alice).CoreV1().Pods("apps").Patch(t.Context(), c.pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "resize")
		if c.want != "" {
			refusedWith(t, "resize of "+c.pod, err, c.want)
		} else if err != nil {
			t.Errorf("resize of %s: %v", c.pod, err)
		}
	}
}
