package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// TestCoverage checks the list of objects that are read and skipped, and the error if none is read.
func TestCoverage(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: c}]}\n"
	isPod := func(o *manifest.Object) bool { return o.Pod != nil }
	for name, test := range map[string]struct{ file, want string }{
		"read":    {pod + "---\n" + pod, "read: Pod (2)"},
		"skipped": {pod + "---\napiVersion: a.io/v1\nkind: B\n---\na: 1\n", "read: Pod; skipped: B (f:5), document without kind (f:8)"},
		"variable": {pod + "---\napiVersion: a.io/v1\nkind: B\nspec: {template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: '{{ .cpu }}'}}}]}}}\n",
			"read: Pod; skipped: B with a variable as an amount (f:5)"},
		"scalars":  {"a\n---\n- b\n---\n# c\n", "nothing was read; skipped: document without kind (2, first f:1); give Pods"},
		"empty":    {"# c\n---\n", "nothing was read; skipped: empty file (f); give Pods"},
		"null":     {"null\n", "nothing was read; skipped: empty file (f); give Pods"},
		"bad":      {"a: [", "nothing was read; give Pods"},
		"bad kind": {"apiVersion: v1\nkind: POD\n", "nothing was read; give Pods"},
		"item":     {`{"kind": "List", "apiVersion": "v1", "items": [null, 3, {"kind": "C", "apiVersion": "a.io/v1"}]}`, "nothing was read; skipped: document without kind (f:1), C (f:1); give Pods"},
		"no items": {`{"kind": "List", "apiVersion": "v1", "items": []}`, "nothing was read; skipped: empty file (f); give Pods"},
	} {
		t.Run(name, func(t *testing.T) {
			var c manifest.Coverage
			objects, errs := manifest.Objects([]byte(test.file))
			c.Add("f", objects, errs, isPod)
			got := c.String()
			if err := c.Err("Pods"); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	var c manifest.Coverage
	for i := range 14 {
		c.Read(fmt.Sprint(i))
	}
	if got, want := c.String(), "read: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, and 2 more kinds"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKinds checks that errors about kinds propose the kind or apiVersion that is meant.
func TestKinds(t *testing.T) {
	for object, want := range map[string]string{
		"apiVersion: v1, kind: pod":                        `kind "pod" is unknown; did you mean Pod?`,
		"apiVersion: apps/v1, kind: Deploymnet":            `kind "Deploymnet" is unknown; did you mean Deployment?`,
		"kind: cronjobs":                                   `kind "cronjobs" is unknown; did you mean CronJob?`,
		"apiVersion: v1, kind: PodLst":                     `kind "PodLst" is unknown; did you mean PodList?`,
		"apiVersion: v1, kind: list":                       `kind "list" is unknown; did you mean List?`,
		"kind: Pod":                                        "apiVersion is missing; write apiVersion: v1",
		"apiVersion: V1, kind: Pod":                        `apiVersion "V1" has no kind Pod; write apiVersion: v1`,
		"apiVersion: extensions/v1beta1, kind: DaemonSet":  `apiVersion "extensions/v1beta1" has no kind DaemonSet; write apiVersion: apps/v1`,
		"apiVersion: apps.kruise.io/v1alpha1, kind: Job":   "",
		"apiVersion: v1, kind: Secret":                     "",
		"apiVersion: v1, kind: Endpoints":                  "",
		"apiVersion: apps/v1, kind: ControllerRevision":    "",
		"apiVersion: autoscaling/v1, kind: Scale":          "",
		"apiVersion: v1, kind: PodTemplateList, items: []": "",
		"apiVersion: example.com/v1, kind: pod":            "",
	} {
		if want != "" {
			_, kind, _ := strings.Cut(object, "kind: ")
			want = "line 1: " + kind + "/a: " + want
		}
		_, errs := manifest.Objects([]byte("{" + object + ", metadata: {name: a}}"))
		got := ""
		if len(errs) > 0 {
			got = errs[0].Error()
		}
		if got != want {
			t.Errorf("%s: %s; want %s", object, got, want)
		}
	}
}
