package lint_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/lint"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

const namespace = `
apiVersion: v1
kind: Namespace
metadata: {name: platform, annotations: {workload.openshift.io/allowed: management}}
---
`

func settings() lint.Settings {
	return lint.Settings{Admission: admission.Settings{Types: map[string]bool{"management": true}}, Namespace: "platform"}
}

func check(t *testing.T, s lint.Settings, text string) []lint.Finding {
	t.Helper()
	objects, errs := manifest.Objects([]byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return s.Check([]lint.File{{Name: "f", Objects: objects}})
}

// The items of a list of one kind need not say which.
func TestTypedList(t *testing.T) {
	const pods = "  metadata: {name: d, namespace: platform}\n  spec: {template: {spec: {containers: [{name: c}]}}}\n"
	for _, head := range []string{
		"apiVersion: apps/v1\nkind: DeploymentList\nitems:\n-\n",
		"apiVersion: v1\nkind: List\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n",
		"apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n",
	} {
		text := namespace + head + pods
		if findings := check(t, settings(), text); len(findings) != 1 || findings[0].Kind+"/"+findings[0].Name != "Deployment/d" {
			t.Errorf("%s: %v, want one about Deployment/d", text, findings)
		}
	}
	if findings := check(t, settings(), "apiVersion: apps/v1\nkind: DeploymentList\nitems: 3\n---\napiVersion: apps/v1\nkind: DeploymentList\n"); len(findings) != 0 {
		t.Errorf("lists of nothing: %v", findings)
	}
}

func TestLimitRange(t *testing.T) {
	for item, want := range map[string]string{
		"{type: Container, default: {cpu: 1}}":              "default.cpu",
		"{type: Container, defaultRequest: {cpu: 1}}":       "defaultRequest.cpu",
		"{type: Container, min: {cpu: 1}}":                  "min.cpu",
		"{type: Container, max: {cpu: 1}}":                  "max.cpu",
		"{type: Container, maxLimitRequestRatio: {cpu: 2}}": "maxLimitRequestRatio.cpu",
		"{type: Pod, min: {cpu: 1}}":                        "min.cpu",
		"{type: Container, default: {memory: 1}}":           "",
		"{type: PersistentVolumeClaim, min: {storage: 1}}":  "",
	} {
		object := "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits:\n  - type: Pod\n  - " + item + "\n"
		findings := check(t, settings(), namespace+object)
		switch {
		case want == "" && len(findings) > 0:
			t.Errorf("%s: %v, want nothing", item, findings)
		case want != "" && (len(findings) != 1 || !strings.HasPrefix(findings[0].Message, want+" ") || findings[0].Line != 12):
			t.Errorf("%s: %v, want one at line 12 that begins with %s", item, findings, want)
		}
		// In a namespace where no such pods are, it does no harm.
		if findings := check(t, settings(), object); len(findings) > 0 {
			t.Errorf("%s: %v, want nothing where no type is allowed", item, findings)
		}
	}
}

func TestTypesOfNamespace(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {target.workload.openshift.io/infra: '{\"effect\":\"PreferredDuringScheduling\"}'}}\nspec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1}}}]}\n"
	s := settings()
	s.Admission.Types["infra"] = true
	s.Allowed = map[string][]string{"platform": {"management", "infra"}}
	if findings := check(t, s, pod); len(findings) > 0 {
		t.Errorf("%v, want nothing", findings)
	}
	s.Allowed = map[string][]string{"platform": {"management"}}
	if findings := check(t, s, pod); len(findings) != 1 {
		t.Errorf("%v, want one finding", findings)
	}
}

// FuzzCheck checks that every finding has its line in the file and says what to
// do, and that the order of files is nothing to it.
func FuzzCheck(f *testing.F) {
	f.Add(namespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {target.workload.openshift.io/: x, resources.workload.openshift.io/c: y}}\n")
	f.Add(namespace + "apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Pod, min: {cpu: 1}}]}\n---\napiVersion: v1\nkind: ResourceQuota\nspec: {hard: {cpu: 1}}\n")
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: DaemonSet, metadata: &m {name: a}, spec: {template: {metadata: *m, spec: {containers: [{name: c}, null]}}}}\n")
	f.Add(namespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nb\"}\nspec: {containers: [{name: \"c\\td\"}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, _ := manifest.Objects([]byte(text))
		lines := strings.Count(text, "\n") + 1 + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		s := settings()
		s.Admission.SharedCPUs = true
		files := []lint.File{{Name: "a", Objects: objects}, {Name: "b", Objects: objects[:len(objects)/2]}}
		findings := s.Check(files)
		for _, finding := range findings {
			if finding.Line < 1 || finding.Line > lines || finding.Message == "" || finding.Remedy == "" || strings.Contains(finding.String(), "\n") {
				t.Errorf("finding %q of %d lines", finding.String(), lines)
			}
		}
		slices.Reverse(files)
		if diff := cmp.Diff(findings, s.Check(files)); diff != "" {
			t.Errorf("in another order of files:\n%s", diff)
		}
	})
}
