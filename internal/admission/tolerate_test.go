package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestTolerateDepletion(t *testing.T) {
	other := corev1.Toleration{Key: "other", Operator: corev1.TolerationOpExists}
	ours := corev1.Toleration{Key: workload.DepletedTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	evicted := corev1.Toleration{Key: workload.DepletedTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}
	const management = "@target.workload.openshift.io/management {\"effect\":\"PreferredDuringScheduling\"}\n"
	for name, c := range map[string]struct {
		pod           string
		manifest, off bool
		given, want   []corev1.Toleration
	}{
		"no request":           {pod: "app a memory=1Gi", given: []corev1.Toleration{other}, want: []corev1.Toleration{other}},
		"request":              {pod: "app a cpu=1", want: []corev1.Toleration{ours}},
		"limit alone":          {pod: "app a | cpu=1", want: []corev1.Toleration{ours}},
		"init container":       {pod: "init i cpu=1\napp a", want: []corev1.Toleration{ours}},
		"the pod's own":        {pod: "pod cpu=1\napp a", want: []corev1.Toleration{ours}},
		"others stay":          {pod: "app a cpu=1", given: []corev1.Toleration{other}, want: []corev1.Toleration{other, ours}},
		"has it":               {pod: "app a cpu=1", given: []corev1.Toleration{ours, other}, want: []corev1.Toleration{ours, other}},
		"tolerates everything": {pod: "app a cpu=1", given: []corev1.Toleration{everything}, want: []corev1.Toleration{everything}},
		"another effect":       {pod: "app a cpu=1", given: []corev1.Toleration{evicted}, want: []corev1.Toleration{evicted, ours}},
		"management":           {pod: management + "app a cpu=1 memory=1Gi", want: []corev1.Toleration{ours}},
		"management, nothing":  {pod: management + "app a", want: []corev1.Toleration{ours}},
		"static":               {pod: "app a cpu=1", manifest: true},
		"off":                  {pod: "app a cpu=1", off: true},
	} {
		pod := &corev1.Pod{}
		if err := parsePod(pod, c.pod); err != nil {
			t.Fatal(err)
		}
		pod.Spec.Tolerations = c.given
		s := admission.Settings{Types: map[string]bool{"management": true}, TolerateDepletion: !c.off}
		from := admission.Origin{Namespace: map[string]string{s.Names.AllowedKey(): "management"}, Manifest: c.manifest}
		got, _, err := s.Mutate(pod, from)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got.Spec.Tolerations); diff != "" {
			t.Errorf("%s: tolerations (-want +got):\n%s", name, diff)
		}
		checkPatch(t, pod, got)
	}
}
