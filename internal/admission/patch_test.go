package admission_test

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// checkPatch checks that the patch makes after of before, as another program applies it.
func checkPatch(t *testing.T, before, after *corev1.Pod) {
	t.Helper()
	raw := encode(t, before)
	got := apply(t, raw, admission.Patch(before, after, []byte(raw)))
	if diff := cmp.Diff(encode(t, after), got); diff != "" {
		t.Errorf("the pod when patched (-want +got):\n%s", diff)
	}
	if before == after && len(admission.Patch(before, after, []byte(raw))) > 0 {
		t.Error("patch of an unchanged pod has operations; want none")
	}
}

// encode returns the pod as the API server would, and removes empty objects: a patch
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
	return canonical(t, patched(t, pod, ops))
}

// patched returns the JSON of a pod after operations.
func patched(t *testing.T, pod string, ops []admission.Operation) []byte {
	t.Helper()
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
	return out
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
	data, err := json.Marshal(admission.Patch(before, after, []byte(`{"spec":{"containers":[{},{}]}}`)))
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
	if ops := admission.Patch(before, before, nil); ops != nil {
		t.Errorf("patch of the same pod = %v; want none", ops)
	}
}

// TestPatchKeepsUnknownFields checks that resources of a newer API server keep their fields.
func TestPatchKeepsUnknownFields(t *testing.T) {
	for name, tc := range map[string]struct{ resources, want string }{
		"unknown alone": {`"resources":{"future":{"a":1}}`, `"resources":{"future":{"a":1},"limits":{"x.io/y":"7"},"requests":{"x.io/y":"7"}}`},
		"empty":         {`"resources":{}`, `"resources":{"limits":{"x.io/y":"7"},"requests":{"x.io/y":"7"}}`},
		"null":          {`"resources":null`, `"resources":{"limits":{"x.io/y":"7"},"requests":{"x.io/y":"7"}}`},
		"absent":        {`"image":"i"`, `"image":"i","resources":{"limits":{"x.io/y":"7"},"requests":{"x.io/y":"7"}}`},
		"known, too": {`"resources":{"future":1,"limits":{"cpu":"1"}}`,
			`"resources":{"future":1,"limits":{"cpu":"1","x.io/y":"7"},"requests":{"x.io/y":"7"}}`},
	} {
		for _, list := range []string{"containers", "initContainers"} {
			t.Run(name+" "+list, func(t *testing.T) {
				raw := `{"spec":{"` + list + `":[{"name":"a",` + tc.resources + `}]}}`
				before := &corev1.Pod{}
				if err := json.Unmarshal([]byte(raw), before); err != nil {
					t.Fatal(err)
				}
				after := before.DeepCopy()
				for _, c := range [][]corev1.Container{after.Spec.Containers, after.Spec.InitContainers} {
					for i := range c {
						for _, l := range []*corev1.ResourceList{&c[i].Resources.Requests, &c[i].Resources.Limits} {
							if *l == nil {
								*l = corev1.ResourceList{}
							}
							(*l)["x.io/y"] = resource.MustParse("7")
						}
					}
				}
				got := patched(t, raw, admission.Patch(before, after, []byte(raw)))
				want := `{"spec":{"` + list + `":[{"name":"a",` + tc.want + `}]}}`
				if !jsonpatch.Equal([]byte(want), got) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		}
	}
}
