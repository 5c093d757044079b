package manifest_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// TestShapes checks which parts of an object of an unknown kind are templates.
func TestShapes(t *testing.T) {
	const pod = "{spec: {containers: [{name: a, image: i}]}}"
	for _, test := range []struct{ name, text, want string }{
		{"template", "spec: {template: " + pod + "}", "spec.template."},
		{"two templates", "spec: {workers: {a: {template: " + pod + "}, b: {template: " + pod + "}}}", "spec.workers.a.template. spec.workers.b.template."},
		{"a list", "spec: {groups: [{size: 3}, {pod: " + pod + "}]}", "spec.groups.1.pod."},
		{"the object itself", "spec: {containers: [{name: a, image: i}]}", ""},
		{"a pattern of a policy", "spec: {rules: [{pattern: {spec: {containers: [{name: '*', image: '*'}]}}}]}", ""},
		{"a schema", "spec: {schema: {spec: {containers: {type: array}}}}", ""},
		{"no image", "spec: {template: {spec: {containers: [{name: a}]}}}", ""},
		{"no pod", "spec: {template: {spec: {containers: [{name: a, image: i, resources: 3}]}}}", ""},
		{"too deep", "spec: {a: {b: {c: {d: {e: {f: {g: {h: " + pod + "}}}}}}}}", ""},
	} {
		objects, errs := manifest.Objects([]byte("apiVersion: example.org/v1\nkind: Unknown\n" + test.text + "\n"))
		var paths []string
		for _, o := range objects {
			if o.Pod != nil {
				paths = append(paths, o.PodPath)
			}
		}
		if got := strings.Join(paths, " "); got != test.want || len(errs) > 0 || len(objects) == 0 {
			t.Errorf("%s: %q, %v; want %q", test.name, got, errs, test.want)
		}
	}
}

// FuzzShapes checks that a template of an unknown kind is the same pod as in a Deployment, and that
// its lines are lines of the file.
func FuzzShapes(f *testing.F) {
	f.Add("metadata: {labels: {a: b}}\nspec: {containers: [{name: a, image: i, resources: {limits: {cpu: 2}}}]}\n")
	f.Add("spec:\n  initContainers: [{name: i}]\n  containers:\n  - {name: a, image: i}\n  - {name: b, image: i}\n")
	f.Add("spec: {containers: [{name: a, image: i}], template: {spec: {containers: [{name: b, image: j}]}}}\n")
	f.Add("spec: &s {containers: [{name: a, image: i}]}\nmore: [*s, {spec: *s}]\n")
	f.Add("spec: {<<: {containers: [{name: a, image: i}]}}\n")
	f.Fuzz(func(t *testing.T, template string) {
		indented := "    " + strings.ReplaceAll(strings.TrimSuffix(template, "\n"), "\n", "\n    ")
		read := func(kind string) ([]manifest.Object, string) {
			text := kind + "\nspec:\n  template:\n" + indented + "\n"
			objects, _ := manifest.Objects([]byte(text))
			return objects, text
		}
		shaped, text := read("apiVersion: example.org/v1\nkind: Unknown")
		lines := strings.Count(text, "\n") + 1 + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		for _, o := range shaped {
			if o.Shaped != (o.Pod != nil) || o.Shaped && (o.PodPath == "" || len(o.Pod.Spec.Containers) == 0) {
				t.Errorf("object = %+v; want a pod if shaped, of\n%s", o, text)
			}
			if o.Shaped && (o.PodLine("spec") < 1 || o.PodLine("spec") > lines) {
				t.Errorf("line = %d; want 1 to %d", o.PodLine("spec"), lines)
			}
		}
		known, _ := read("apiVersion: apps/v1\nkind: Deployment")
		if len(shaped) == 1 && len(known) == 1 && shaped[0].PodPath == "spec.template." {
			if diff := cmp.Diff(known[0].Pod, shaped[0].Pod); diff != "" {
				t.Errorf("pod differs from a Deployment's:\n%s", diff)
			}
		}
	})
}
