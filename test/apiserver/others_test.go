//go:build apiserver

package apiserver_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOthers checks the webhook together with the API server's own plugins and other
// webhooks, which change the same pods before and after it.
func TestOthers(t *testing.T) {
	s, _ := startWebhook(t)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	t.Run("LimitRange", func(t *testing.T) { limitRanges(t, s) })
	t.Run("injectors", func(t *testing.T) { injectors(t, s) })
}

func list(cpu string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
}

// injectors are webhooks of others, whose names come before ours and after it: the API
// server asks in that order, and again when one of them has changed a pod.
func injectors(t *testing.T, s *apiServer) {
	sidecar := corev1.Container{Name: "sidecar", Image: "x", Resources: corev1.ResourceRequirements{Requests: list("100m")}}
	always := corev1.ContainerRestartPolicyAlways
	proxy := corev1.Container{Name: "proxy", Image: "x", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Requests: list("50m"), Limits: list("200m")}}
	inject := func(pod *corev1.Pod) {
		if !slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "sidecar" }) {
			// In front: containers are known by their names and not by their places.
			pod.Spec.Containers = append([]corev1.Container{sidecar}, pod.Spec.Containers...)
			pod.Spec.InitContainers = append([]corev1.Container{proxy}, pod.Spec.InitContainers...)
		}
	}
	again := func(pod *corev1.Pod) {
		for i := range pod.Spec.Containers {
			if r := &pod.Spec.Containers[i].Resources; r.Requests.Cpu().IsZero() {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[corev1.ResourceCPU] = resource.MustParse("10m")
			}
		}
	}
	for _, c := range []struct {
		name     string
		change   func(*corev1.Pod)
		policy   registrationv1.ReinvocationPolicyType
		pod      *corev1.Pod
		want     map[string]string // requests by container
		annotate map[string]string // resource annotations by container
	}{
		{"a-inject", inject, registrationv1.NeverReinvocationPolicy, newPod("m", management(), "cpu=400m memory=1Gi"),
			map[string]string{"app": cores + "=400", "sidecar": cores + "=100", "proxy": cores + "=50"},
			map[string]string{"app": `{"cpushares":409}`, "sidecar": `{"cpushares":102}`, "proxy": `{"cpushares":51,"cpulimit":200}`}},
		{"z-inject", inject, registrationv1.NeverReinvocationPolicy, newPod("m", management(), "cpu=400m memory=1Gi"),
			map[string]string{"app": cores + "=400", "sidecar": cores + "=100", "proxy": cores + "=50"},
			map[string]string{"app": `{"cpushares":409}`, "sidecar": `{"cpushares":102}`, "proxy": `{"cpushares":51,"cpulimit":200}`}},
		{"z-inject-others", inject, registrationv1.IfNeededReinvocationPolicy, newPod("m", nil, "cpu=2 memory=1Gi | cpu=2 memory=1Gi"),
			// With the sidecar the pod is not Guaranteed, so no container has exclusive CPUs.
			map[string]string{"app": "cpu=2 " + shared + "=2k", "sidecar": "cpu=100m " + shared + "=100", "proxy": "cpu=50m " + shared + "=50"}, nil},
		{"a-again", again, registrationv1.IfNeededReinvocationPolicy, newPod("m", management(), "cpu=400m memory=1Gi | cpu=500m"),
			map[string]string{"app": cores + "=400"}, map[string]string{"app": `{"cpushares":409,"cpulimit":500}`}},
		{"z-again", again, registrationv1.NeverReinvocationPolicy, newPod("m", management(), "cpu=400m memory=1Gi | cpu=500m"),
			map[string]string{"app": cores + "=400"}, map[string]string{"app": `{"cpushares":409,"cpulimit":500}`}},
		// The API server calls each webhook at most twice. A webhook that is called after ours decides; the pod is counted
		// twice then.
		{"z-insists", again, registrationv1.IfNeededReinvocationPolicy, newPod("m", management(), "cpu=400m memory=1Gi"),
			map[string]string{"app": "cpu=10m " + cores + "=400"}, map[string]string{"app": `{"cpushares":409}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			namespaceNamed(t, s, c.name, "management")
			startInjector(t, s, c.name, c.policy, c.change)
			got, err := create(t, s, c.name, c.pod)
			if err != nil {
				t.Fatal(err)
			}
			all := append(slices.Clone(got.Spec.InitContainers), got.Spec.Containers...)
			if len(all) != len(c.want) {
				t.Errorf("%d containers, want %d", len(all), len(c.want))
			}
			for i := range all {
				name := all[i].Name
				if r := requestsOf(&all[i]); r != c.want[name] {
					t.Errorf("container %s requests %s, want %s", name, r, c.want[name])
				}
				if a := got.Annotations["resources.workload.openshift.io/"+name]; a != c.annotate[name] {
					t.Errorf("container %s has the annotation %s, want %s", name, a, c.annotate[name])
				}
			}
		})
	}
}

// startInjector serves a mutating webhook for the pods of one namespace until the test ends.
func startInjector(t *testing.T, s *apiServer, name string, policy registrationv1.ReinvocationPolicyType, change func(*corev1.Pod)) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := injected(r.Body, change)
		if err != nil {
			t.Errorf("review of %s: %v", name, err)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer) // a test that ends closes the connection
	}))
	t.Cleanup(server.Close)
	fail, none, path := registrationv1.Fail, registrationv1.SideEffectClassNone, server.URL
	all := registrationv1.NamespacedScope
	configurations := s.client(t, admin).AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := configurations.Create(t.Context(), &registrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []registrationv1.MutatingWebhook{{
			Name: name + ".example.org", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, ReinvocationPolicy: &policy,
			ClientConfig: registrationv1.WebhookClientConfig{
				URL: &path, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []registrationv1.RuleWithOperations{{
				Operations: []registrationv1.OperationType{registrationv1.Create},
				Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &all},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := configurations.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
	})
	before := newPod("x", nil, "")
	change(before)
	eventually(t, "the API server asks "+name, func(ctx context.Context) error {
		got, err := s.client(t, alice).CoreV1().Pods(name).Create(ctx, newPod("x", nil, ""), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && (len(got.Spec.Containers) != len(before.Spec.Containers) || requests(got) == "") {
			err = errorf("the pod is as it was")
		}
		return err
	})
}

// injected answers a review with the pod as changed.
func injected(body io.Reader, change func(*corev1.Pod)) ([]byte, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	if err := json.Unmarshal(data, &review); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &pod); err != nil {
		return nil, err
	}
	change(&pod)
	spec, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": pod.Spec}})
	if err != nil {
		return nil, err
	}
	kind := admissionv1.PatchTypeJSONPatch
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true, Patch: spec, PatchType: &kind}
	review.Request = nil
	return json.Marshal(review)
}

// TestKubeVirt checks that virtual machines with exclusive CPUs lose the selector for a static
// kubelet, and no other selector.
func TestKubeVirt(t *testing.T) {
	s := startAPIServer(t)
	prepare(t, s)
	maps := s.client(t, admin).CoreV1().ConfigMaps(installed)
	config, err := maps.Get(t.Context(), installed, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config.Data["config.yaml"] += "\nkubevirt: true\n"
	if _, err := maps.Update(t.Context(), config, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	startReplica(t, s)
	send(t, s)
	nodeWith(t, s, "n1", cores, shared, guaranteed)
	latched(t, s)
	const whole, fraction = "cpu=2 memory=1Gi | cpu=2 memory=1Gi", "cpu=1500m memory=1Gi | cpu=1500m memory=1Gi"
	for name, c := range map[string]struct {
		label, resources string
		stays            bool
	}{
		"dedicated": {"virt-launcher", whole, false},
		"fraction":  {"virt-launcher", fraction, true},
		"other":     {"virt-handler", whole, true},
	} {
		pod := newPod(name, nil, c.resources)
		pod.Labels = map[string]string{"kubevirt.io": c.label}
		pod.Spec.NodeSelector = map[string]string{"kubevirt.io/cpumanager": "true", "kubevirt.io/schedulable": "true"}
		got, err := create(t, s, "apps", pod)
		if err != nil {
			t.Fatal(err)
		}
		_, stays := got.Spec.NodeSelector["kubevirt.io/cpumanager"]
		if stays != c.stays || got.Spec.NodeSelector["kubevirt.io/schedulable"] != "true" {
			t.Errorf("%s: node selector %v; want kubevirt.io/cpumanager: %t, and kubevirt.io/schedulable", name, got.Spec.NodeSelector, c.stays)
		}
	}
}
