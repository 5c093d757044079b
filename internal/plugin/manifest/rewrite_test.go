package manifest_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// move renames the resource cpu of all containers, and sums it up in an annotation
// and a note.
func move(pod *corev1.Pod) (*corev1.Pod, []string, error) {
	moved, milli := pod.DeepCopy(), int64(0)
	for _, list := range [][]corev1.Container{moved.Spec.InitContainers, moved.Spec.Containers} {
		for _, c := range list {
			for _, r := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
				if q, ok := r[corev1.ResourceCPU]; ok {
					delete(r, corev1.ResourceCPU)
					r["moved"] = q
					milli += q.MilliValue()
				}
			}
		}
	}
	delete(moved.Annotations, "gone")
	if milli == 0 {
		return moved, nil, nil
	}
	if moved.Annotations == nil {
		moved.Annotations = map[string]string{}
	}
	moved.Annotations["cpu"] = strconv.FormatInt(milli, 10)
	return moved, []string{moved.Annotations["cpu"]}, nil
}

func same(pod *corev1.Pod) (*corev1.Pod, []string, error) { return pod, nil, nil }

func section(t *testing.T, name string) []byte {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/kinds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("no section %s", name)
	return nil
}

func TestRewrite(t *testing.T) {
	got, err := manifest.Rewrite(section(t, "before"), move)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got, want []byte
	}{
		{"before", got.Before, section(t, "before")},
		{"after", got.After, section(t, "after")},
		{"notes", []byte(strings.Join(got.Notes, "\n") + "\n"), section(t, "notes")},
	} {
		if diff := cmp.Diff(string(c.want), string(c.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// The items of a list of one kind may lack the kind.
func TestTypedList(t *testing.T) {
	const list = "apiVersion: v1\nkind: PodList\nitems:\n  - metadata:\n      name: p\n    spec:\n      containers:\n        - name: c\n          resources:\n            requests:\n              cpu: 1\n"
	got, err := manifest.Rewrite([]byte(list), move)
	if err != nil || len(got.Notes) != 1 || got.Notes[0] != "Pod/p: 1000" || !strings.Contains(string(got.After), `moved: "1"`) {
		t.Errorf("notes = %q, %v; want one, after:\n%s", got.Notes, err, got.After)
	}
}

func TestEmptyMappingsGo(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    gone: x\nspec:\n  containers: [{name: c}]\n"
	got, err := manifest.Rewrite([]byte(pod), move)
	if want := "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: c}]\n"; err != nil || string(got.After) != want {
		t.Errorf("Rewrite = %q, %v, want %q", got.After, err, want)
	}
}

// A pod's own requests count in addition to its containers' requests.
func TestResourcesOfThePod(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: c}]\n  resources: {requests: {cpu: 1}, limits: {memory: 1Gi}}\n"
	drop := func(pod *corev1.Pod) (*corev1.Pod, []string, error) {
		dropped := pod.DeepCopy()
		delete(dropped.Spec.Resources.Requests, corev1.ResourceCPU)
		return dropped, nil, nil
	}
	got, err := manifest.Rewrite([]byte(pod), drop)
	if want := "apiVersion: v1\nkind: Pod\nspec:\n  containers: [{name: c}]\n  resources: {limits: {memory: 1Gi}}\n"; err != nil || string(got.After) != want {
		t.Errorf("Rewrite = %q, %v, want %q", got.After, err, want)
	}
}

func TestOtherDocumentsStay(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec:\n    containers:\n        - resources: {requests: {cpu: 1}}\n"
	const after = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - resources: {requests: {moved: \"1\"}}\nmetadata:\n  annotations:\n    cpu: \"1000\"\n"
	for name, c := range map[string]struct{ before, after string }{
		"comments":    {"# licence\n---\n# the pod\n" + pod + "---\n# nothing\n---\n- c\n", "# licence\n---\n# the pod\n" + after + "---\n# nothing\n---\n- c\n"},
		"indentation": {"a:\n    b: {c: d}\n--- # next\n" + pod, "a:\n    b: {c: d}\n---\n# next\n" + after},
		"directive":   {"%YAML 1.1\n---\na:  b\n---\n" + pod + "...\n%YAML 1.1\n---\nx:   y", "%YAML 1.1\n---\na:  b\n---\n" + after + "---\nx: y\n"},
		"a string":    {"a: |\n  ---\n  b\n---\r\nc:  d\r\n", "a: |\n  ---\n  b\n---\r\nc:  d\r\n"},
		"unchanged":   {"apiVersion: v1\nkind: Pod\nspec:\n      containers: [ {} ]\n", "apiVersion: v1\nkind: Pod\nspec:\n      containers: [ {} ]\n"},
		"json":        {`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"<a>","resources":{"limits":{"cpu":1,"x":null}}}]}}`, `{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"<a>","resources":{"limits":{"x":null,"moved":"1"}}}]},"metadata":{"annotations":{"cpu":"1000"}}}` + "\n"},
		"indented json": {
			"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\", \"spec\": {\"containers\": [{\"resources\": {\"requests\": {\"cpu\": 1}}}]}}",
			"{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"spec\": {\n\t\t\"containers\": [\n\t\t\t{\n\t\t\t\t\"resources\": {\n\t\t\t\t\t\"requests\": {\n\t\t\t\t\t\t\"moved\": \"1\"\n\t\t\t\t\t}\n\t\t\t\t}\n\t\t\t}\n\t\t]\n\t},\n\t\"metadata\": {\n\t\t\"annotations\": {\n\t\t\t\"cpu\": \"1000\"\n\t\t}\n\t}\n}\n",
		},
	} {
		got, err := manifest.Rewrite([]byte(c.before), move)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.after, string(got.After)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestKeysAreAsTheyAreSpelled(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{RESOURCES: {requests: {cpu: 1}}}]}\n"
	if got, err := manifest.Rewrite([]byte(pod), move); err != nil || string(got.After) != pod {
		t.Errorf("Rewrite = %q, %v; want no change", got.After, err)
	}
}

func TestRewriteErrors(t *testing.T) {
	refuse := func(*corev1.Pod) (*corev1.Pod, []string, error) { return nil, nil, errors.New("not this one") }
	for name, c := range map[string]struct {
		text   string
		mutate manifest.Mutate
		want   string
	}{
		"no YAML":         {"a: [", same, "yaml: "},
		"a later one":     {"a: b\n---\nc: d\n---\ne: [\n", same, "yaml: line 5: "},
		"alias":           {"apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: &l {a: b}, annotations: *l}\nspec: {containers: [{resources: {requests: {cpu: 1}}}]}\n", move, "Pod/p, line 3: an alias"},
		"later alias":     {"a: b\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: &l {a: b}, annotations: *l}\nspec: {containers: [{resources: {requests: {cpu: 1}}}]}\n", move, "Pod/p, line 5: an alias"},
		"merge":           {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n<<: {spec: {containers: [{resources: {requests: {cpu: 1}}}]}}\n", move, "Pod/p, line 4: an alias or a merge"},
		"alias of a list": {"&l\napiVersion: v1\nkind: List\nitems:\n- *l\n", move, "line 5: an alias stands for items of a list"},
		"alias of items":  {"apiVersion: v1\nkind: List\nitems: &i\n- apiVersion: v1\n  kind: List\n  items: *i\n", move, "line 6: an alias stands for items of a list"},
		"alias of an item": {"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod, spec: {containers: [{resources: &r {requests: {cpu: 1}}}]}}\n" +
			"- {apiVersion: v1, kind: Pod, spec: {containers: [{resources: *r}]}}\n", move, "line 5: an alias stands for values that change in one item of the list only"},
		"no template": {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n", same, "line 1: Deployment/d: no spec.template"},
		"no quantity": {"apiVersion: v1\nkind: Pod\nspec: {containers: [{resources: {requests: {cpu: much}}}]}\n", same, "spec.containers[0].resources.requests.cpu: "},
		"refused":     {"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{}]}\n", refuse, "Pod/p: not this one"},
	} {
		if _, err := manifest.Rewrite([]byte(c.text), c.mutate); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// TestRewriteReportsAll checks that the error has all objects with an error, in the order of the
// file, and that the result has the notes of the others only.
func TestRewriteReportsAll(t *testing.T) {
	const text = `apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {containers: [{}]}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{}]}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d}, spec: {containers: [{}]}}
`
	got, err := manifest.Rewrite([]byte(text), func(pod *corev1.Pod) (*corev1.Pod, []string, error) {
		if pod.Name == "good" {
			return pod, []string{"a note"}, nil
		}
		return nil, nil, errors.New("not this one")
	})
	const want = "Pod/a: not this one\nPod/b: not this one\nline 11: Deployment/c: no spec.template; it makes no pods as it is\nPod/d: not this one"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if diff := cmp.Diff(manifest.Result{Notes: []string{"Pod/good: a note"}}, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// FuzzRewrite checks that a file without needed changes stays the same, and that the
// result can be read again.
func FuzzRewrite(f *testing.F) {
	f.Add("a: b\n---\n# nothing\n---\n- c\n")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: null\nspec: {containers: [null, {resources: {requests: {cpu: 1}}}]}\n")
	f.Add("apiVersion: v1\nkind: Pod\nspec: {containers}\n")
	f.Add(`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"cpu": 1e3}}}]}}]}`)
	f.Add("%YAML 1.2\n--- # one\na: |\n  b\n...\n---\nc: d\n---")
	f.Add("apiVersion: v1\r\nkind: Pod\r\nspec: {containers: [{resources: &r {requests: {cpu: 1}}}, {resources: *r}, {resources: {<<: *r, limits: {cpu: 1}}}]}\r\n")
	f.Add("apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}]}}}}}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := manifest.Rewrite([]byte(text), same); err == nil && (string(got.After) != text || string(got.Before) != text) {
			t.Errorf("rewrite without changes changed text:\n%s", cmp.Diff(text, string(got.After)))
		}
		once, err := manifest.Rewrite([]byte(text), move)
		if err != nil {
			return
		}
		if json.Valid([]byte(text)) && !json.Valid(once.After) {
			t.Errorf("the result is no JSON:\n%s", once.After)
		}
		twice, err := manifest.Rewrite(once.After, move)
		if err != nil {
			t.Fatalf("the result cannot be read: %v\n%s", err, once.After)
		}
		if len(twice.Notes) > 0 {
			t.Errorf("second rewrite found cpu again: %q\n%s", twice.Notes, once.After)
		}
	})
}
