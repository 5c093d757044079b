package othermanagers_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/othermanagers"
)

// TestRequests checks which annotations of pods are requests, and that a finding names the pod
// with the first name.
func TestRequests(t *testing.T) {
	requests := othermanagers.Requests{}
	requests.Add("b/late", map[string]string{"nokia.k8s.io/cpus": "[]"})
	requests.Add("a/first", map[string]string{
		"nokia.k8s.io/cpus": "[]", "nokia.k8s.io/other": "", "example.com/cpus": "",
		"katalyst.kubewharf.io/qos_level": "dedicated_cores", "katalyst.kubewharf.io/cpu_enhancement": "{}",
		"cmk.intel.com/mutate": "true", "scheduling.koordinator.sh/resource-status": "{}",
		"prefer-isolated-cpus.resource-policy.nri.io/container.c": "true", "balloon.balloons.resource-policy.nri.io": "x",
		"cpu.preserve.resource-policy.nri.io": "true", "topologyhints.cri-resource-manager.intel.com/pod": "true",
	})
	requests.Add("c/excluded", map[string]string{"cpu.preserve.resource-policy.nri.io": "true"})
	var got [][2]string
	for _, f := range requests.Findings() {
		got = append(got, [2]string{f.Subject, f.Found})
	}
	found := func(manager, annotation string) string {
		return "requests CPUs from " + manager + " (annotation " + annotation + "): cpupoold places it as any other pod; if " + manager + " runs, it and cpupoold overwrite each other's CPUs"
	}
	want := [][2]string{
		{"pod a/first", found("CMK", "cmk.intel.com/mutate")},
		{"pod a/first (and 1 more)", found("CPU-Pooler", "nokia.k8s.io/cpus")},
		{"pod a/first", found("CRI Resource Manager", "topologyhints.cri-resource-manager.intel.com/pod")},
		{"pod a/first", found("balloons (nri-plugins)", "balloon.balloons.resource-policy.nri.io")},
		{"pod a/first", found("katalyst", "katalyst.kubewharf.io/cpu_enhancement")},
		{"pod a/first", found("koordinator", "scheduling.koordinator.sh/resource-status")},
		{"pod a/first", found("nri-plugins", "prefer-isolated-cpus.resource-policy.nri.io/container.c")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
