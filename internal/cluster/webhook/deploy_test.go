package webhook

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

// deployed are the objects of deploy/webhook and the daemon's, decoded as a strict API
// server does: an unknown or repeated field is an error.
func deployed(t *testing.T) []runtime.Object {
	t.Helper()
	files, err := filepath.Glob("../../../deploy/webhook/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("deploy/webhook: %d files, %v", len(files), err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return filepath.Base(file) == "kustomization.yaml" }) // no object
	files = append(files, "../../../deploy/webhook/eviction/eviction.yaml", "../../../deploy/webhook/hosted-priority/rights.yaml", "../../../deploy/daemonset.yaml")
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []runtime.Object
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			object, _, err := strict.Decode(document, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			all = append(all, object)
		}
	}
	return all
}

// find returns the only object of a type with the name.
func find[T interface {
	runtime.Object
	GetName() string
}](t *testing.T, objects []runtime.Object, name string) T {
	t.Helper()
	for _, o := range objects {
		if found, ok := o.(T); ok && found.GetName() == name {
			return found
		}
	}
	var none T
	t.Fatalf("deploy has no %T %s", none, name)
	return none
}

func TestDeployed(t *testing.T) {
	objects := deployed(t)
	namespace := find[*corev1.Namespace](t, objects, objectName)
	service := find[*corev1.Service](t, objects, objectName)
	deployment := find[*appsv1.Deployment](t, objects, objectName)
	find[*corev1.ConfigMap](t, objects, latchesName)
	find[*corev1.Secret](t, objects, secretName)
	find[*coordinationv1.Lease](t, objects, "cpupool-webhook-eviction")
	if _, err := Parse([]byte(find[*corev1.ConfigMap](t, objects, objectName).Data["config.yaml"])); err != nil {
		t.Errorf("configuration: %v", err)
	}

	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	if service.Spec.Selector["app.kubernetes.io/name"] != pod.Labels["app.kubernetes.io/name"] {
		t.Error("the service does not select the Deployment's pods")
	}
	for _, err := range (admission.Settings{}).Validate(pod, admission.Origin{Namespace: namespace.Annotations}) {
		t.Errorf("the webhook's own pod: %v", err)
	}
	if *deployment.Spec.Replicas < 2 {
		t.Error("one replica: each restart stops the cluster")
	}
	if grace := *pod.Spec.TerminationGracePeriodSeconds; float64(grace) < Default().DrainPeriod.Seconds()+10 {
		t.Errorf("the pod is killed after %d s, while it drains", grace)
	}
	for _, c := range pod.Spec.Containers {
		for name := range c.Resources.Requests {
			if strings.Contains(string(name), "/") {
				t.Errorf("container %s cannot start before nodes advertise %s, and other pods not before it", c.Name, name)
			}
		}
	}
}

// TestDeployedDaemonIsTrusted checks that the policies of trust.yaml admit the daemon's pods.
// The policies apply to all namespaces; if they refused these pods, nodes would have no daemon.
func TestDeployedDaemonIsTrusted(t *testing.T) {
	objects := deployed(t)
	namespace := find[*corev1.Namespace](t, objects, "cpupoold")
	daemon := find[*appsv1.DaemonSet](t, objects, "cpupoold")
	pod := &corev1.Pod{ObjectMeta: daemon.Spec.Template.ObjectMeta, Spec: daemon.Spec.Template.Spec}
	for _, err := range (admission.Settings{}).Validate(pod, admission.Origin{Namespace: namespace.Annotations}) {
		t.Errorf("the daemon's own pod: %v", err)
	}
}

func TestDeployedWebhooks(t *testing.T) {
	objects := deployed(t)
	mutating := find[*admissionregistrationv1.MutatingWebhookConfiguration](t, objects, objectName)
	validating := find[*admissionregistrationv1.ValidatingWebhookConfiguration](t, objects, objectName)
	if len(mutating.Webhooks) != 2 || len(validating.Webhooks) != 2 {
		t.Fatalf("%d mutating and %d validating webhooks; want 2 of each", len(mutating.Webhooks), len(validating.Webhooks))
	}
	for _, c := range []struct {
		client admissionregistrationv1.WebhookClientConfig
		path   string
	}{
		{mutating.Webhooks[0].ClientConfig, podsPath}, {mutating.Webhooks[1].ClientConfig, podsPath},
		{validating.Webhooks[0].ClientConfig, resizePath}, {validating.Webhooks[1].ClientConfig, autoscalersPath},
	} {
		if s := c.client.Service; s == nil || s.Namespace != objectName || s.Name != objectName || *s.Path != c.path {
			t.Errorf("a webhook calls %+v, want path %s of the service", s, c.path)
		}
	}
	if is := *validating.Webhooks[1].FailurePolicy; is != admissionregistrationv1.Ignore {
		t.Errorf("failure policy of the review of autoscalers, which only warns = %s; want Ignore", is)
	}
	policies := map[string]admissionregistrationv1.FailurePolicyType{}
	for _, namespace := range []string{"default", "kube-system", "cpupool-webhook", "cpupoold"} {
		for _, w := range mutating.Webhooks {
			for _, e := range w.NamespaceSelector.MatchExpressions {
				if in := slices.Contains(e.Values, namespace); in == (e.Operator == "In") {
					policies[namespace] = *w.FailurePolicy
				}
			}
		}
	}
	if policies["default"] != admissionregistrationv1.Fail || policies["kube-system"] != admissionregistrationv1.Ignore || len(policies) != 2 {
		t.Errorf("failure policies by namespace: %v; want Fail in default, Ignore in kube-system, and the others exempt", policies)
	}
}

// TestDeployedRights checks that rights to write are limited to named objects.
func TestDeployedRights(t *testing.T) {
	objects := deployed(t)
	rules := slices.Concat(find[*rbacv1.ClusterRole](t, objects, objectName).Rules, find[*rbacv1.Role](t, objects, objectName).Rules,
		find[*rbacv1.Role](t, objects, "cpupool-webhook-eviction").Rules, find[*rbacv1.ClusterRole](t, objects, "cpupool-webhook-hosted-priority").Rules)
	annotates := 0
	for _, r := range rules {
		for _, verb := range r.Verbs {
			reads := verb == "get" || verb == "list" || verb == "watch"
			// HostedClusters have any name. A policy holds the program to its annotations there.
			if slices.Equal(r.Resources, []string{"hostedclusters"}) && verb == "patch" {
				annotates++
				continue
			}
			if !reads && len(r.ResourceNames) == 0 || verb == "*" || verb == "create" || verb == "delete" {
				t.Errorf("%s of %v is allowed for any name", verb, r.Resources)
			}
		}
	}
	if annotates != 1 {
		t.Errorf("%d rules allow to annotate HostedClusters; want 1", annotates)
	}
	policy := find[*admissionregistrationv1.ValidatingAdmissionPolicy](t, objects, "cpupool-webhook-hosted-clusters").Spec
	own := policy.Variables[slices.IndexFunc(policy.Variables, func(v admissionregistrationv1.Variable) bool { return v.Name == "own" })].Expression
	keys := hostedpriority.Written()
	for i, quoted := range strings.Split(strings.Trim(own, "[]"), ",") {
		if i >= len(keys) || strings.Trim(quoted, " '") != keys[i] {
			t.Errorf("the policy allows annotations %s; want %v", own, keys)
			break
		}
	}
}
