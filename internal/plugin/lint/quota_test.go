package lint_test

import (
	"strings"
	"testing"
)

func TestLimitRange(t *testing.T) {
	const anywhere, asking = true, false
	for item, want := range map[string]struct {
		message  string // the beginning; none without
		anywhere bool   // in each namespace, or where pods of a workload type can be
	}{
		"{type: Container, default: {cpu: 1}}":                                                                         {"default.cpu 1 of type Container limits containers", asking},
		"{type: Container, defaultRequest: {cpu: 1}}":                                                                  {"", asking},
		"{type: Container, min: {cpu: 1}}":                                                                             {"min.cpu 1 of type Container refuses pods of a workload type", asking},
		"{type: Container, max: {cpu: 1}}":                                                                             {"max.cpu 1 of type Container refuses pods of a workload type", asking},
		"{type: Container, maxLimitRequestRatio: {cpu: 2}}":                                                            {"maxLimitRequestRatio.cpu 2 of type Container refuses pods of a workload type", asking},
		"{type: Pod, min: {cpu: 1}}":                                                                                   {"min.cpu 1 of type Pod refuses pods of a workload type", asking},
		"{type: Container, default: {memory: 1}}":                                                                      {"", asking},
		"{type: PersistentVolumeClaim, min: {storage: 1}}":                                                             {"", asking},
		"{type: Container, max: {openshift.io/guaranteed-cpus: 4k}}":                                                   {"max.openshift.io/guaranteed-cpus 4k of type Container refuses containers of other pools", anywhere},
		"{type: Pod, min: {management.workload.openshift.io/cores: 1}}":                                                {"min.management.workload.openshift.io/cores 1 of type Pod refuses containers of other pools", anywhere},
		"{type: Container, default: {openshift.io/shared-cpus: 100}}":                                                  {"default.openshift.io/shared-cpus 100 of type Container has no effect", anywhere},
		"{type: Container, defaultRequest: {cpu: 500m, memory: 1Gi}, default: {memory: 1Gi}}":                          {"", anywhere},
		"{type: PersistentVolumeClaim, default: {cpu: 2, memory: 1Gi}}":                                                {"", anywhere},
		"{type: Container, max: {cpu: 2, memory: 1Gi}, default: {memory: 1Gi}, defaultRequest: {cpu: 1, memory: 1Gi}}": {"max.cpu 2 of type Container refuses pods of a workload type", asking},
	} {
		object := "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits:\n  - type: Pod\n  - " + item + "\n"
		for text, line := range map[string]int{namespace + object: 12, object: 7} {
			findings := check(t, settings(), text)
			expected := want.message
			if text == object && want.anywhere == asking {
				expected = "" // no pod of a workload type can be here
			}
			switch {
			case expected == "" && len(findings) > 0:
				t.Errorf("%s: %v; want none", item, findings)
			case expected != "" && (len(findings) != 1 || !strings.HasPrefix(findings[0].Message, expected) || findings[0].Line != line):
				t.Errorf("%s: %v; want one at line %d that begins with %q", item, findings, line, expected)
			}
		}
	}
}

// TestGuaranteedByDefault checks defaults that make pods without requests and limits Guaranteed.
func TestGuaranteedByDefault(t *testing.T) {
	const (
		exclusive = " exclusive CPUs, because their pods are Guaranteed"
		noType    = "makes pods without requests and limits Guaranteed"
	)
	for item, want := range map[string]struct{ anywhere, asking string }{
		"default: {cpu: 2, memory: 1Gi}":                                               {"2" + exclusive, "2" + exclusive},
		"max: {cpu: 2, memory: 1Gi}":                                                   {"2" + exclusive, "2" + exclusive},
		"max: {cpu: 4, memory: 1Gi}, default: {cpu: 2}":                                {"2" + exclusive, "2" + exclusive},
		"default: {cpu: 500m, memory: 1Gi}":                                            {"", noType},
		"default: {cpu: 2, memory: 1Gi}, defaultRequest: {cpu: 1}":                     {"", ""},
		"default: {cpu: 2, memory: 1Gi}, defaultRequest: {memory: 1Mi}":                {"", ""},
		"default: {cpu: 2, memory: 1Gi}, defaultRequest: {cpu: 2000m, memory: 1024Mi}": {"2" + exclusive, "2" + exclusive},
		"default: {cpu: 2}":                                                            {"", ""},
	} {
		object := "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n  limits:\n  - {type: Container, " + item + "}\n"
		for text, expected := range map[string]string{object: want.anywhere, namespace + object: want.asking} {
			found := 0
			for _, f := range check(t, settings(), text) {
				if strings.Contains(f.Message, "Guaranteed") {
					found++
					if !strings.Contains(f.Message, expected) || f.Remedy != "write a lower defaultRequest.cpu" {
						t.Errorf("%s: %v; want %q", item, f, expected)
					}
				}
			}
			if (found == 1) != (expected != "") {
				t.Errorf("%s: %d findings about the QoS class; want %q", item, found, expected)
			}
		}
	}
}

func TestResourceQuota(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other, annotations: {target.workload.openshift.io/infra: '{\"effect\":\"PreferredDuringScheduling\"}'}}\nspec: {containers: [{name: c, resources: {requests: {cpu: 1, memory: 1}}}]}\n---\n"
	const elsewhere = ", or keep pods of workload types in a namespace without it"
	s := settings()
	s.Admission.Types["infra"] = true
	for hard, want := range map[string]struct{ namespace, finding string }{
		"requests.cpu: 4": {"platform", "a quota of 4 requests.cpu refuses pods of a workload type, whose containers have no cpu (write requests.management.workload.openshift.io/cores: 4k instead of requests.cpu" + elsewhere + ")"},
		"cpu: 500m":       {"other", "a quota of 500m cpu refuses pods of a workload type, whose containers have no cpu (write requests.infra.workload.openshift.io/cores: 500 instead of cpu" + elsewhere + ")"},
		"requests.openshift.io/guaranteed-cpus: 8": {"none", "a quota of 8 requests.openshift.io/guaranteed-cpus admits no exclusive CPU, because the unit is a thousandth of a CPU (write 8k, as much as cpu: 8)"},
		"limits.openshift.io/shared-cpus: 8k":      {"none", "a quota of 8k limits.openshift.io/shared-cpus counts nothing, because quotas count this resource as requests.openshift.io/shared-cpus only (write requests.openshift.io/shared-cpus)"},
		"requests.openshift.io/shared-cpus: 8k":    {"none", ""},
		"limits.cpu: 8":                            {"none", ""},
	} {
		object := "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: " + want.namespace + "}\nspec:\n  hard:\n    " + hard + "\n"
		var got []string
		for _, f := range check(t, s, namespace+pod+object) {
			if f.Kind == "ResourceQuota" {
				got = append(got, f.Message+" ("+f.Remedy+")")
				if f.Line != 16 {
					t.Errorf("%s: line %d; want 16", hard, f.Line)
				}
			}
		}
		if text := strings.Join(got, "\n"); text != want.finding {
			t.Errorf("%s: findings %q; want %q", hard, text, want.finding)
		}
	}
}
