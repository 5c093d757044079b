package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// TestRemoveVariables checks that containers and init containers lose the variable, with one
// warning, and that the patch removes each entry.
func TestRemoveVariables(t *testing.T) {
	field := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['x']"}}
	shared := corev1.EnvVar{Name: "OPENSHIFT_SHARED_CPUS", Value: "0-7"}
	a, b := corev1.EnvVar{Name: "A", Value: "1"}, corev1.EnvVar{Name: "OPENSHIFT_SHARED_CPUS2"}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i", Env: []corev1.EnvVar{shared}}},
		Containers: []corev1.Container{
			{Name: "m", Env: []corev1.EnvVar{shared, a, {Name: shared.Name, ValueFrom: field}, b, shared}}, {Name: "n", Env: []corev1.EnvVar{a, b}},
		},
	}}
	before := pod.DeepCopy()
	got, warnings := admission.RemoveVariables(pod, admission.Origin{})
	want := pod.DeepCopy()
	want.Spec.InitContainers[0].Env = []corev1.EnvVar{}
	want.Spec.Containers[0].Env = []corev1.EnvVar{a, b}
	if diff := cmp.Diff(want, got) + cmp.Diff(before, pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if len(warnings) != 1 || warnings[0].Reason != admission.VariableRemoved ||
		warnings[0].String() != `environment variable "OPENSHIFT_SHARED_CPUS" was removed: CRI-O would add CPUs of other containers to the container; the runtime or cpupoold sets it` {
		t.Errorf("warnings = %v; want one on the variable", warnings)
	}
	checkPatch(t, pod, got)
	mirror := pod.DeepCopy()
	mirror.Annotations = map[string]string{"kubernetes.io/config.mirror": "1"}
	if same, warnings := admission.RemoveVariables(mirror, admission.Origin{Node: true}); same != mirror || len(warnings) > 0 {
		t.Errorf("copy of a static pod changed, with %v; want no change", warnings)
	}
}

// checkVariables checks that no container keeps the variable, and that the patch does all that
// Mutate and RemoveVariables do.
func checkVariables(t *testing.T, from admission.Origin, pod, mutated *corev1.Pod) {
	t.Helper()
	got, warnings := admission.RemoveVariables(mutated, from)
	for _, c := range all(got) {
		for _, v := range c.Env {
			if v.Name == "OPENSHIFT_SHARED_CPUS" {
				t.Errorf("container %s keeps %s", c.Name, v.Name)
			}
		}
	}
	if (got != mutated) != (len(warnings) > 0) {
		t.Errorf("warnings = %v; want some only for a changed pod", warnings)
	}
	checkPatch(t, pod, got)
}
