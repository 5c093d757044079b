package admission_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// checkPatch checks that the patch makes after of before, as another program applies it.
func checkPatch(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	got := apply(t, encode(t, before), admission.Patch(before, after))
	if diff := cmp.Diff(encode(t, after), got); diff != "" {
		t.Errorf("the pod when patched (-want +got):\n%s", diff)
	}
	if before == after && len(admission.Patch(before, after)) > 0 {
		t.Error("a patch for a pod that stays as it is")
	}
}

// encode returns the pod as the API server would, and empties what is empty: a patch
// leaves {} where it removes the last member.
func encode(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return canonical(t, data)
}

func canonical(t *testing.T, data []byte) string {
	t.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal(data, pod); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func apply(t *testing.T, pod string, ops []admission.Operation) string {
	t.Helper()
	if len(ops) == 0 {
		return pod
	}
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply([]byte(pod))
	if err != nil {
		t.Fatalf("patch %s: %v", text, err)
	}
	return canonical(t, out)
}

func TestPatchNamesOnlyWhatChanges(t *testing.T) {
	before, after := &corev1.Pod{}, &corev1.Pod{}
	for pod, text := range map[*corev1.Pod]string{
		before: "@a/b~c 1\n@gone 1\n@stays 1\ninit i cpu=1\napp a memory=1Gi cpu=1\napp b\n",
		after:  "@a/b~c 2\n@stays 1\n@x.io/new 1\ninit i cpu=1000m\napp a memory=1Gi x.io/y=7 | x.io/y=7\napp b cpu=2\n",
	} {
		if err := parsePod(pod, text); err != nil {
			t.Fatal(err)
		}
	}
	after.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}
	data, err := json.Marshal(admission.Patch(before, after))
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"op":"replace","path":"/metadata/annotations/a~1b~0c","value":"2"},` +
		`{"op":"remove","path":"/metadata/annotations/gone"},` +
		`{"op":"add","path":"/metadata/annotations/x.io~1new","value":"1"},` +
		`{"op":"remove","path":"/spec/containers/0/resources/requests/cpu"},` +
		`{"op":"add","path":"/spec/containers/0/resources/requests/x.io~1y","value":"7"},` +
		`{"op":"add","path":"/spec/containers/0/resources/limits","value":{"x.io/y":"7"}},` +
		`{"op":"add","path":"/spec/containers/1/resources","value":{"requests":{"cpu":"2"}}},` +
		`{"op":"add","path":"/spec/tolerations","value":[{"key":"k","operator":"Exists"}]}]`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
	if ops := admission.Patch(before, before); ops != nil {
		t.Errorf("patch of the same pod: %v", ops)
	}
}
