package cri_test

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestSharedCPUs checks that the value is the one that CRI-O uses, and that it is bounded.
func TestSharedCPUs(t *testing.T) {
	for env, want := range map[string]string{
		"":                          "",
		"A=1 B":                     "",
		"OPENSHIFT_SHARED_CPUS=2-3": "2-3",
		"OPENSHIFT_SHARED_CPUS=":    "",
		"OPENSHIFT_SHARED_CPUS":     "",
		"XOPENSHIFT_SHARED_CPUS=1":  "",
		"OPENSHIFT_SHARED_CPUS=2=3": "2",
		"OPENSHIFT_SHARED_CPUS=2 OPENSHIFT_SHARED_CPUS=3":   "3",
		"OPENSHIFT_SHARED_CPUS=2 A OPENSHIFT_SHARED_CPUS2=": "2",
	} {
		if got := cri.SharedCPUs(strings.Split(env, " ")); got != want {
			t.Errorf("SharedCPUs(%q) = %q; want %q", env, got, want)
		}
	}
	long := cri.SharedCPUs([]string{cri.SharedCPUsVariable + "=" + strings.Repeat("1,", 100_000) + "1"})
	if _, err := cpuset.Parse(long); err == nil || len(long) > 1100 {
		t.Errorf("a cut value of %d bytes is a list; want an error", len(long))
	}
}
