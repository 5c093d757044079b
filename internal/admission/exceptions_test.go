package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestExceptions checks which pods the exceptions select, and that these request no resource of a
// pool.
func TestExceptions(t *testing.T) {
	const affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	const preferred = "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: "
	settings := admission.Settings{
		SharedCPUs: true, GuaranteedCPUs: true, Types: map[string]bool{"management": true},
		Exceptions: admission.Exceptions{Namespaces: []string{"ci"}, NodeLabels: map[string][]string{"pool": {"burst", "spot"}, "karpenter.sh/nodepool": nil}},
	}
	for name, c := range map[string]struct {
		namespace, spec string
		want            bool
	}{
		"another namespace":         {spec: "{}"},
		"the namespace":             {namespace: "ci", spec: "{}", want: true},
		"part of the name":          {namespace: "ci-2", spec: "{}"},
		"label and value":           {spec: "{nodeSelector: {pool: burst, disk: ssd}}", want: true},
		"another value":             {spec: "{nodeSelector: {pool: large}}"},
		"any value":                 {spec: "{nodeSelector: {karpenter.sh/nodepool: x}}", want: true},
		"each value":                {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: In, values: [spot, burst]}]}]}}}}", want: true},
		"one of the values":         {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: In, values: [spot, large]}]}]}}}}"},
		"each term":                 {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: In, values: [spot]}]}, {matchExpressions: [{key: karpenter.sh/nodepool, operator: Exists}]}]}}}}", want: true},
		"one of the terms":          {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: In, values: [spot]}]}, {matchExpressions: [{key: disk, operator: Exists}]}]}}}}"},
		"a label, whatever value":   {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: Exists}]}]}}}}"},
		"other values":              {spec: "{" + affinity + "[{matchExpressions: [{key: pool, operator: NotIn, values: [large]}]}]}}}}"},
		"a field of the node":       {spec: "{" + affinity + "[{matchFields: [{key: pool, operator: In, values: [spot]}]}]}}}}"},
		"preferred":                 {spec: "{" + preferred + "{matchExpressions: [{key: pool, operator: In, values: [spot]}]}}]}}}"},
		"a toleration of the nodes": {spec: "{tolerations: [{key: pool, operator: Exists}]}"},
	} {
		pod := &corev1.Pod{}
		if err := yaml.Unmarshal([]byte("spec: "+c.spec), pod); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pod.Namespace = c.namespace
		all := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("1Gi")}
		pod.Spec.Containers = []corev1.Container{
			{Name: "a", Resources: corev1.ResourceRequirements{Limits: all, Requests: all}},
			{Name: "b", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}}},
		}
		if got := settings.Excepts(pod); got != c.want {
			t.Errorf("%s: Excepts is %t, want %t", name, got, c.want)
		}
		got, warnings, err := settings.Mutate(pod, admission.Origin{})
		if err != nil || len(warnings) > 0 {
			t.Fatalf("%s: %v, warnings %v", name, err, warnings)
		}
		if changed := !cmp.Equal(pod.Spec.Containers, got.Spec.Containers); changed == c.want {
			t.Errorf("%s: gets resources of pools: %t, want %t", name, changed, !c.want)
		}
	}
}

// TestExceptedRequests checks that a pod of the exceptions loses a resource that its author wrote, with
// a warning, and keeps its workload type.
func TestExceptedRequests(t *testing.T) {
	settings := admission.Settings{SharedCPUs: true, Types: map[string]bool{"management": true}, Exceptions: admission.Exceptions{Namespaces: []string{"ci"}}}
	pod := &corev1.Pod{}
	if err := parsePod(pod, "app a cpu=1 openshift.io/shared-cpus=1000 memory=1Gi | openshift.io/shared-cpus=1000"); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = "ci"
	got, warnings, err := settings.Mutate(pod, admission.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if _, has := got.Spec.Containers[0].Resources.Requests["openshift.io/shared-cpus"]; has {
		t.Error("the resource stays")
	}
	if len(warnings) != 1 || warnings[0].Reason != admission.ResourceExcepted || warnings[0].Subject != "openshift.io/shared-cpus" {
		t.Errorf("warnings %v, want %s", warnings, admission.ResourceExcepted)
	}
	pod.Annotations = map[string]string{settings.Names.TargetKey("management"): workload.TargetValue}
	managed, _, err := settings.Mutate(pod, admission.Origin{Namespace: map[string]string{settings.Names.AllowedKey(): "management"}})
	if err != nil {
		t.Fatal(err)
	}
	if q := managed.Spec.Containers[0].Resources.Requests["management.workload.openshift.io/cores"]; q.Value() != 1000 {
		t.Errorf("cores %s, want 1000", q.String())
	}
}
