package admission_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TestValidateOldForm checks that a pod with an annotation in the old form that no node reads
// is refused, also where another webhook adds it after this one.
func TestValidateOldForm(t *testing.T) {
	const target = "@target.workload.openshift.io/management " + workload.TargetValue + "\n"
	for _, c := range []struct{ domain, pod, want string }{
		{"", target + "@io.openshift.workload.management.cpushares/main 409", ""},
		{"", target + "@io.openshift.workload.management.cpuset/main 0-7", "a pod cannot choose its CPUs: cpuset; remove the annotation"},
		{"", target + "@io.openshift.workload.management.cpuquota/main 0", `unknown resource "cpuquota"; remove the annotation`},
		{"", target + "@io.openshift.workload.management/main {}", "no resource in front of the slash; write resources.workload.openshift.io/main"},
		{"", target + "@io.openshift.workload.infra.cpushares/main 409", `it is for workload type "infra"`},
		{"", "@io.openshift.workload.management.cpuset/main 0-7", "a pod cannot choose its CPUs: cpuset"},
		{"", "@io.openshift.workload.management.cpushares/main 9", "no annotation asks for a workload type"},
		{"cpu.example.org", "@org.example.cpu.management.cpuset/main 0-7", "a pod cannot choose its CPUs: cpuset"},
		{"cpu.example.org", "@io.openshift.workload.management.cpuset/main 0-7", ""},
	} {
		var pod corev1.Pod
		if err := parsePod(&pod, c.pod+"\napp main cpu=1 memory=1Gi"); err != nil {
			t.Fatal(err)
		}
		s := admission.Settings{Names: workload.Names{Domain: c.domain}}
		errs := s.Validate(&pod, admission.Origin{Namespace: map[string]string{s.Names.AllowedKey(): "management"}})
		switch {
		case c.want == "" && len(errs) > 0:
			t.Errorf("%s: %v, want no error", c.pod, errs)
		case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)):
			t.Errorf("%s: %v, want one error with %q", c.pod, errs, c.want)
		}
	}
}
