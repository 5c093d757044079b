package admission_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

func TestResize(t *testing.T) {
	const own, shared, cores = " openshift.io/guaranteed-cpus=", " openshift.io/shared-cpus=", " management.workload.openshift.io/cores="
	for name, c := range map[string]struct {
		before, after string
		want          string // part of the refusal; empty: allowed
	}{
		"the same":           {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", "app a cpu=2000m memory=1Gi" + own + "2k | cpu=2 memory=1Gi", ""},
		"memory":             {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", "app a cpu=2 memory=2Gi" + own + "2k | cpu=2 memory=2Gi", ""},
		"more whole CPUs":    {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", "app a cpu=3 memory=1Gi" + own + "2k | cpu=3 memory=1Gi", `container "a" cannot be resized from 2 CPUs to 3 CPUs`},
		"fewer":              {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", "app a cpu=1 memory=1Gi" + own + "2k | cpu=1 memory=1Gi", "from 2 CPUs to 1 CPUs"},
		"out of the pool":    {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", "app a cpu=1500m memory=1Gi" + own + "2k | cpu=1500m memory=1Gi", "from 2 CPUs to 1500m CPU"},
		"into the pool":      {"app a cpu=1500m memory=1Gi" + shared + "1500 | cpu=1500m memory=1Gi", "app a cpu=2 memory=1Gi" + shared + "1500 | cpu=2 memory=1Gi", "from 1500m CPU to 2 CPUs"},
		"whole, as shared":   {"app a cpu=2 memory=1Gi" + shared + "2k | cpu=2 memory=1Gi", "app a cpu=3 memory=1Gi" + shared + "2k | cpu=3 memory=1Gi", "from 2 CPUs to 3 CPUs"},
		"shared grows":       {"app a cpu=500m" + shared + "500", "app a cpu=700m" + shared + "500", ""},
		"burstable, whole":   {"app a cpu=1" + shared + "1k", "app a cpu=2" + shared + "1k", ""},
		"guaranteed, shared": {"app a cpu=500m memory=1Gi" + shared + "500 | cpu=500m memory=1Gi", "app a cpu=700m memory=1Gi" + shared + "500 | cpu=700m memory=1Gi", ""},
		"counted nowhere":    {"app a cpu=2 memory=1Gi | cpu=2 memory=1Gi", "app a cpu=3 memory=1Gi | cpu=3 memory=1Gi", ""},
		"management":         {"app a memory=1Gi" + cores + "400", "app a memory=1Gi cpu=1" + cores + "400", `counted by workload type "management"`},
		"management, memory": {"app a memory=1Gi" + cores + "400", "app a memory=2Gi" + cores + "400", ""},
		"second container":   {"app a cpu=1\ninit i cpu=1" + cores + "1k", "app a cpu=2\ninit i cpu=2" + cores + "1k", `container "i"`},
	} {
		before, after := &corev1.Pod{}, &corev1.Pod{}
		if err := parsePod(before, c.before); err != nil {
			t.Fatal(err)
		}
		if err := parsePod(after, c.after); err != nil {
			t.Fatal(err)
		}
		errs := (admission.Settings{}).Resize(before, after)
		switch {
		case c.want == "" && len(errs) > 0:
			t.Errorf("%s: %v, want no refusal", name, errs)
		case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)):
			t.Errorf("%s: %v, want one refusal with %q", name, errs, c.want)
		}
	}
}

// TestResizeOfATypesPod: a container of it that had no CPU request would stay where the
// pod is, and be counted elsewhere.
func TestResizeOfATypesPod(t *testing.T) {
	before, after := &corev1.Pod{}, &corev1.Pod{}
	if err := errors.Join(parsePod(before, "app a memory=1Gi"), parsePod(after, "app a cpu=1 memory=1Gi")); err != nil {
		t.Fatal(err)
	}
	if errs := (admission.Settings{}).Resize(before, after); len(errs) > 0 {
		t.Errorf("of no type: %v, want no refusal", errs)
	}
	before.Annotations = map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	errs := (admission.Settings{}).Resize(before, after)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), `container "a" is counted by workload type "management"`) {
		t.Errorf("of a type: %v, want one refusal", errs)
	}
}
