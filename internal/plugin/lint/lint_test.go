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

// The items of a list of one kind may lack the kind.
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
		t.Errorf("findings of empty lists = %v; want none", findings)
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

// TestKeysThatNothingReads checks that each key that looks like a key of a workload type and
// is none has a finding, with its line and a remedy.
func TestKeysThatNothingReads(t *testing.T) {
	const asks = "    target.workload.openshift.io/management: '{\"effect\":\"PreferredDuringScheduling\"}'\n"
	for _, c := range []struct{ domain, metadata, message, remedy string }{
		{"", asks + "    io.openshift.workload.management.cpuset/c: 0-3", "annotation io.openshift.workload.management.cpuset/c: value \"0-3\": a pod cannot choose its CPUs: cpuset", "remove the annotation"},
		{"", asks + "    io.openshift.workload.management.cpuquota/c: 0-3", `unknown resource "cpuquota"`, "remove the annotation"},
		{"", asks + "    io.openshift.workload.management/c: '{}'", "no resource in front of the slash", "write resources.workload.openshift.io/c: {\"cpushares\":N}, or remove it"},
		{"", asks + "    io.openshift.workload.infra.cpushares/c: '9'", `it is for workload type "infra", and the pod asks for "management"`, "remove the annotation"},
		{"", asks + "    io.openshift.workload.management.cpushares/c: '9'", "", ""},
		{"", asks + "    workload.openshift.io/management: x", "annotation workload.openshift.io/management of a pod has no effect", "write target.workload.openshift.io/management: '{\"effect\":\"PreferredDuringScheduling\"}', or remove it"},
		{"", asks + "    workload.openshift.io/allowed: management", "annotation workload.openshift.io/allowed of a pod has no effect", "move it to the namespace"},
		{"", asks + "    workload.openshift.io/warning: x", "", ""},
		{"", asks + "  labels:\n    target.workload.openshift.io/management: x", "label target.workload.openshift.io/management has no effect", "write it as an annotation"},
		{"", asks + "  labels:\n    allowed.workload.openshift.io: x", "label allowed.workload.openshift.io has no effect", "write it as an annotation"},
		{"cpu.example.org", "    org.example.cpu.management.cpuset/c: 0-3", "a pod cannot choose its CPUs: cpuset", "remove the annotation"},
		{"cpu.example.org", "    cpu.example.org/management: x", "p runs in the shared pool, because its annotation cpu.example.org/management has no effect (did you mean target.cpu.example.org/management?).", "write target.cpu.example.org/management: '{\"effect\":\"PreferredDuringScheduling\"}'"},
		{"cpu.example.org", "    io.openshift.workload.management.cpuset/c: 0-3", "", ""},
	} {
		s := settings()
		s.Admission.Names.Domain = c.domain
		text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n" + c.metadata + "\nspec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1}}}]}\n"
		line := strings.Count(text[:strings.Index(text, "\nspec:")], "\n") + 1
		findings := check(t, s, text)
		switch {
		case c.message == "" && len(findings) > 0:
			t.Errorf("%s: %v, want nothing", c.metadata, findings)
		case c.message != "" && (len(findings) != 1 || !strings.HasSuffix(findings[0].Message, c.message) || findings[0].Remedy != c.remedy || findings[0].Line != line):
			t.Errorf("%s: %+v, want one at line %d: %s (%s)", c.metadata, findings, line, c.message, c.remedy)
		}
	}
	const labelled = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: n\n  labels:\n    workload.openshift.io/allowed: management\n"
	if findings := check(t, settings(), labelled); len(findings) != 1 || findings[0].Line != 6 || findings[0].Message != "label workload.openshift.io/allowed has no effect" {
		t.Errorf("%v, want one about the label at line 6", findings)
	}
}

// TestVerticalPodAutoscaler checks that containers without a policy count: their CPU request is set.
func TestVerticalPodAutoscaler(t *testing.T) {
	const workloads = namespace + "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {annotations: {target.workload.openshift.io/management: '{\"effect\":\"PreferredDuringScheduling\"}'}}, " +
		"spec: {containers: [{name: a, resources: {requests: {cpu: 1, memory: 1}}}, {name: b, resources: {requests: {cpu: 1, memory: 1}}}]}}}\n---\n" +
		"apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nmetadata: {name: v}\nspec: {targetRef: {kind: Deployment, name: d}, resourcePolicy: {containerPolicies: ["
	for policies, want := range map[string]int{
		"":                                1,
		"{containerName: a, mode: 'Off'}": 1,
		"{containerName: a, mode: 'Off'}, {containerName: b, controlledResources: [memory]}": 0,
		"{containerName: '*', controlledResources: [memory]}":                                0,
		"{containerName: b}, {containerName: '*', mode: 'Off'}":                              1,
	} {
		if findings := check(t, settings(), workloads+policies+"]}}\n"); len(findings) != want {
			t.Errorf("%s: %v, want %d findings", policies, findings, want)
		}
	}
}

// FuzzCheck checks that every finding has its line in the file and a remedy, and that
// the order of files does not matter.
func FuzzCheck(f *testing.F) {
	f.Add(namespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {target.workload.openshift.io/: x, resources.workload.openshift.io/c: y}}\n")
	f.Add(namespace + "apiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Pod, min: {cpu: 1}}]}\n---\napiVersion: v1\nkind: ResourceQuota\nspec: {hard: {cpu: 1}}\n")
	f.Add("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: DaemonSet, metadata: &m {name: a}, spec: {template: {metadata: *m, spec: {containers: [{name: c}, null]}}}}\n")
	f.Add(namespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\nb\"}\nspec: {containers: [{name: \"c\\td\"}]}\n")
	f.Add("apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {target.workload.openshift.io/x: y}, annotations: {io.openshift.workload.management.cpuset/c: 0-3, io.openshift.workload.m/c: '{}', workload.openshift.io/m: x}}\n")
	f.Add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, annotations: {io.openshift.workload.a.b.cpulimit/c: 1}, labels: {workload.openshift.io/allowed: m}}\nspec: {template: {metadata: {labels: {resources.workload.openshift.io/c: x}}, spec: {containers: [{name: c}]}}}\n")
	f.Add("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {metadata: {annotations: {target.workload.openshift.io/management: '{\"effect\":\"PreferredDuringScheduling\"}'}}, spec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1}}}]}}}\n---\napiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nspec: {scaleTargetRef: {kind: Deployment, name: d}}\n")
	f.Add("apiVersion: autoscaling.k8s.io/v1\nkind: VerticalPodAutoscaler\nspec: {targetRef: {kind: Pod, name: p}, resourcePolicy: {containerPolicies: [{controlledResources: [cpu]}, null]}}\n---\napiVersion: keda.sh/v1alpha1\nkind: ScaledObject\nspec: {scaleTargetRef: {name: d}, triggers: [{type: cpu}, null]}\n")
	f.Add("apiVersion: example.org/v1\nkind: Unknown\nspec: {a: [{template: {metadata: {annotations: {workload.openshift.io/managment: x}}, spec: {resources: {limits: {cpu: 2500m, memory: 1}}, containers: [{name: c, image: i}]}}}]}\n---\napiVersion: v1\nkind: LimitRange\nspec: {limits: [{type: Container, max: {cpu: 2}, default: {memory: 1}}]}\n")
	f.Add("apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nspec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: openshift.io/shared-cpus, nominalQuota: 8}]}]}], excludeResourcePrefixes: [openshift.io/]}\n")
	f.Add("apiVersion: v1\nkind: ConfigMap\ndata:\n  a: |\n    apiVersion: config.kueue.x-k8s.io/v1beta2\n    kind: Configuration\n    resources: {excludeResourcePrefixes: [requests.openshift.io/shared-cpus], transformations: [{input: cpu, strategy: Replace}]}\n")
	f.Add("&l {apiVersion: v1, kind: List, items: [*l]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, _ := manifest.Objects([]byte(text))
		lines := strings.Count(text, "\n") + 1 + strings.Count(text, "\r") + strings.Count(text, "\u0085") + strings.Count(text, "\u2028") + strings.Count(text, "\u2029")
		s := settings()
		s.Admission.SharedCPUs = true
		files := []lint.File{{Name: "a", Objects: objects}, {Name: "b", Objects: objects[:len(objects)/2]}}
		findings := s.Check(files)
		for _, finding := range findings {
			if finding.Line < 1 || finding.Line > lines || finding.Message == "" || finding.Remedy == "" || strings.Contains(finding.String(), "\n") {
				t.Errorf("finding = %q of %d lines; want a line, message and remedy", finding.String(), lines)
			}
		}
		slices.Reverse(files)
		if diff := cmp.Diff(findings, s.Check(files)); diff != "" {
			t.Errorf("in another order of files:\n%s", diff)
		}
	})
}

// TestOptionValues checks that a value that an option does not have is a finding with its code.
func TestOptionValues(t *testing.T) {
	const pod = namespace + "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other, annotations: {cpupoold.io/topology-policy: VALUE}}\n" +
		"spec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
	s := settings()
	if findings := check(t, s, strings.Replace(pod, "VALUE", "restricted", 1)); len(findings) > 0 {
		t.Errorf("findings of a valid value = %v; want none", findings)
	}
	findings := check(t, s, strings.Replace(pod, "VALUE", "single-numa", 1))
	if len(findings) != 1 || findings[0].Code != "OverrideInvalid" || !strings.Contains(findings[0].Message, "single-numa") {
		t.Errorf("%v; want one finding OverrideInvalid about single-numa", findings)
	}
}
