package verdict_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/verdict"
)

// TestMeant checks which annotation a misspelt one means.
func TestMeant(t *testing.T) {
	for key, want := range map[string]string{
		"cpu-load-balacing.crio.io":                        "cpu-load-balancing.crio.io",
		"cpu-load-balacing.crio.io/c":                      "cpu-load-balancing.crio.io/c",
		"cpu-load-balancing.crio.io":                       "",
		"cpu-qouta.crio.io":                                "cpu-quota.crio.io",
		"cpu-freq-governer.workload.openshift.io/c":        "cpu-freq-governor.workload.openshift.io/c",
		"resource.workload.openshift.io/c":                 "resources.workload.openshift.io/c",
		"resources.workload.openshift.io/c":                "",
		"target.workload.openshift.io/managment":           "",
		"traget.workload.openshift.io/management":          "target.workload.openshift.io/management",
		"io.kubernetes.cri-o.userns-mode":                  "",
		"kubectl.kubernetes.io/default-container":          "",
		"container.apparmor.security.beta.kubernetes.io/c": "",
	} {
		if got := new(verdict.Pod).Meant(key); got != want {
			t.Errorf("Meant(%q) = %q, want %q", key, got, want)
		}
	}
}
