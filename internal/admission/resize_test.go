package admission_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cpuclaim"
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
		"on a claim": {"entry e=du\napp a claim:e cpu=2 memory=1Gi | cpu=2 memory=1Gi\napp b cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi",
			"entry e=du\napp a claim:e cpu=3 memory=1Gi | cpu=3 memory=1Gi\napp b cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", ""},
		"beside a claim": {"entry e=du\napp a claim:e cpu=2 memory=1Gi | cpu=2 memory=1Gi\napp b cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi",
			"entry e=du\napp a claim:e cpu=2 memory=1Gi | cpu=2 memory=1Gi\napp b cpu=3 memory=1Gi" + own + "2k | cpu=3 memory=1Gi", `container "b" cannot be resized from 2 CPUs to 3 CPUs`},
		"second container": {"app a cpu=1\ninit i cpu=1" + cores + "1k", "app a cpu=2\ninit i cpu=2" + cores + "1k", `container "i"`},
	} {
		before, after := &corev1.Pod{}, &corev1.Pod{}
		if err := parsePod(before, c.before); err != nil {
			t.Fatal(err)
		}
		if err := parsePod(after, c.after); err != nil {
			t.Fatal(err)
		}
		errs := admission.Settings{Claims: claims{"du": cpuclaim.CPUs}}.Resize(before, after)
		switch {
		case c.want == "" && len(errs) > 0:
			t.Errorf("%s: %v, want no refusal", name, errs)
		case c.want != "" && (len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want)):
			t.Errorf("%s: %v, want one refusal with %q", name, errs, c.want)
		}
	}
}

// TestResizeTotal checks resizes of pods with spec.resources.
func TestResizeTotal(t *testing.T) {
	const own, shared, cores = " openshift.io/guaranteed-cpus=", " openshift.io/shared-cpus=", " management.workload.openshift.io/cores="
	const target = "@target.workload.openshift.io/management {\"effect\":\"PreferredDuringScheduling\"}\n"
	const four, six = "pod cpu=4 memory=4Gi | cpu=4 memory=4Gi\n", "pod cpu=6 memory=4Gi | cpu=6 memory=4Gi\n"
	const fraction = "pod cpu=3500m memory=4Gi | cpu=3500m memory=4Gi\n"
	const burstable = "pod cpu=4 memory=4Gi | cpu=8 memory=4Gi\n"
	const total = "the CPU request in spec.resources cannot be resized from "
	const container = "@cpupoold.io/pod-level container\n"
	for name, c := range map[string]struct {
		before, after string
		want          []string // parts of the refusals
	}{
		"memory":                         {four + "app a" + own + "4k\napp b", "pod cpu=4 memory=5Gi | cpu=4 memory=5Gi\napp a" + own + "4k\napp b", nil},
		"the pod grows":                  {four + "app a" + own + "4k\napp b", six + "app a" + own + "4k\napp b", []string{total + "4 CPUs to 6 CPUs: the pod's whole CPUs"}},
		"the pod shrinks":                {six + "app a" + own + "6k\napp b", four + "app a" + own + "6k\napp b", []string{total + "6 CPUs to 4 CPUs"}},
		"the pod becomes whole":          {fraction + "app a" + shared + "3500", four + "app a" + shared + "3500", []string{total + "3500m CPU to 4 CPUs"}},
		"whole, as shared":               {four + "app a" + shared + "4k", six + "app a" + shared + "4k", []string{total + "4 CPUs to 6 CPUs"}},
		"fractions":                      {fraction + "app a" + shared + "3500", "pod cpu=2500m memory=4Gi | cpu=2500m memory=4Gi\napp a" + shared + "3500", nil},
		"a fraction with whole CPUs":     {fraction + "app a cpu=2" + own + "2k | cpu=2\napp b" + shared + "1500", "pod cpu=4500m memory=4Gi | cpu=4500m memory=4Gi\napp a cpu=2" + own + "2k | cpu=2\napp b" + shared + "1500", []string{total + "3500m CPU to 4500m CPU"}},
		"burstable":                      {burstable + "app a" + shared + "4k", "pod cpu=6 memory=4Gi | cpu=8 memory=4Gi\napp a" + shared + "4k", nil},
		"counted nowhere":                {four + "app a", six + "app a", nil},
		"spec.resources is new":          {"app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", four + "app a cpu=2 memory=1Gi" + own + "2k | cpu=2 memory=1Gi", []string{total + "2 CPUs to 4 CPUs"}},
		"a container gets whole CPUs":    {four + "app a" + own + "4k\napp b cpu=500m", four + "app a" + own + "4k\napp b cpu=1 | cpu=1", []string{`container "b" cannot be resized from 500m CPU to 1 CPUs`}},
		"a container loses whole CPUs":   {four + "app a" + own + "4k\napp b cpu=1 | cpu=1", four + "app a" + own + "4k\napp b cpu=1500m | cpu=1500m", []string{`container "b" cannot be resized from 1 CPUs to 1500m CPU`}},
		"its limit makes it a sharer":    {four + "app a" + own + "4k\napp b cpu=1 | cpu=1", four + "app a" + own + "4k\napp b cpu=1 | cpu=2", []string{`the CPU limit of container "b" cannot be resized from 1 CPUs to 2 CPUs`}},
		"whole to whole":                 {four + "app a" + own + "4k\napp b cpu=1 | cpu=1", four + "app a" + own + "4k\napp b cpu=2 | cpu=2", nil},
		"a sharer":                       {four + "app a" + own + "4k\napp b cpu=500m", four + "app a" + own + "4k\napp b cpu=700m", nil},
		"whole to whole, per container":  {container + four + "app a" + shared + "3k\napp b cpu=1" + own + "1k | cpu=1", container + four + "app a" + shared + "3k\napp b cpu=2" + own + "1k | cpu=2", []string{`container "b" cannot be resized from 1 CPUs to 2 CPUs`}},
		"the node recognises the pod":    {"pod cpu=3 memory=4Gi | cpu=3 memory=4Gi\napp a cpu=2" + own + "2k | cpu=2\napp b cpu=500m" + shared + "500 | cpu=500m\napp c cpu=500m" + shared + "500 | cpu=500m", "pod cpu=3 memory=4Gi | cpu=3 memory=4Gi\napp a cpu=2" + own + "2k | cpu=2\napp b cpu=500m" + shared + "500 | cpu=1\napp c cpu=500m" + shared + "500 | cpu=500m", []string{"would give it 3 CPUs instead of 2 CPUs"}},
		"a fraction grows":               {"pod cpu=5 memory=4Gi | cpu=5 memory=4Gi\napp a cpu=2" + own + "4500 | cpu=2\napp b cpu=500m" + shared + "500 | cpu=500m", "pod cpu=5 memory=4Gi | cpu=5 memory=4Gi\napp a cpu=2" + own + "4500 | cpu=2\napp b cpu=700m" + shared + "500 | cpu=700m", nil},
		"a management pod gets CPU":      {target + "pod memory=1Gi | memory=2Gi\napp a" + cores + "400", target + "pod cpu=4 memory=1Gi | memory=2Gi\napp a" + cores + "400", []string{`the pod is counted by workload type "management", and the CPU request in spec.resources cannot be resized from 0 CPUs to 4 CPUs`}},
		"by a limit":                     {target + "pod memory=1Gi | memory=2Gi\napp a" + cores + "400", target + "pod memory=1Gi | cpu=4 memory=2Gi\napp a" + cores + "400", []string{"from 0 CPUs to 4 CPUs"}},
		"in a new spec.resources":        {target + "app a memory=1Gi" + cores + "400", target + "pod cpu=500m memory=1Gi | cpu=1 memory=2Gi\napp a memory=1Gi" + cores + "400", []string{"from 0 CPUs to 500m CPU"}},
		"a management pod gets memory":   {target + "pod memory=1Gi | memory=2Gi\napp a" + cores + "400", target + "pod memory=2Gi | memory=4Gi\napp a" + cores + "400", nil},
		"its container and pod together": {target + "pod memory=1Gi | memory=2Gi\napp a" + cores + "400", target + "pod cpu=1 memory=1Gi | memory=2Gi\napp a cpu=1" + cores + "400", []string{"from 0 CPUs to 1 CPUs", `container "a" is counted by`}},
	} {
		before, after := &corev1.Pod{}, &corev1.Pod{}
		if err := errors.Join(parsePod(before, c.before), parsePod(after, c.after)); err != nil {
			t.Fatal(err)
		}
		errs := admission.Settings{PodLevelOverride: true}.Resize(before, after)
		if len(errs) != len(c.want) {
			t.Errorf("%s: %v, want %d refusals", name, errs, len(c.want))
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(errs[i].Error(), want) {
				t.Errorf("%s: %v, want a refusal with %q", name, errs[i], want)
			}
		}
	}
}

// FuzzResize checks that an admitted resize of a pod that is counted for exclusive CPUs alone
// leaves their number.
func FuzzResize(f *testing.F) {
	f.Add("pod cpu=4 memory=4Gi | cpu=4 memory=4Gi\napp a\napp b cpu=1 | cpu=1", "pod cpu=4 memory=4Gi | cpu=4 memory=4Gi\napp a\napp b cpu=2 | cpu=2", false)
	f.Add("pod cpu=4 memory=4Gi | cpu=4 memory=4Gi\napp a cpu=2 | cpu=2\napp b", "pod cpu=4 memory=4Gi | cpu=4 memory=4Gi\napp a cpu=3 | cpu=3\napp b", true)
	f.Add("app a cpu=2 memory=1Gi | cpu=2 memory=1Gi", "pod cpu=4 memory=1Gi | cpu=4 memory=1Gi\napp a cpu=2 memory=1Gi | cpu=2 memory=1Gi", false)
	f.Fuzz(func(t *testing.T, textBefore, textAfter string, container bool) {
		s := admission.Settings{SharedCPUs: true, GuaranteedCPUs: true}
		if container {
			s.PodLevel = admission.PodLevelContainer
		}
		pods := make([]*corev1.Pod, 2)
		for i, text := range []string{textBefore, textAfter} {
			pod := &corev1.Pod{}
			if parsePod(pod, text) != nil {
				t.Skip("no pod")
			}
			mutated, _, err := s.Mutate(pod, admission.Origin{})
			if err != nil || len(mutated.Annotations) > 0 {
				t.Skip("refused, or asks for something else")
			}
			pods[i] = mutated
		}
		before, after := pods[0], pods[1]
		if !slices.EqualFunc(all(before), all(after), func(a, b corev1.Container) bool { return a.Name == b.Name }) || len(before.Spec.Containers) != len(after.Spec.Containers) {
			t.Skip("a resize changes no containers")
		}
		if qosClass(before, s.Defaults) != qosClass(after, s.Defaults) {
			t.Skip("the API server refuses another class")
		}
		if len(s.Resize(before, after)) > 0 {
			return
		}
		counted := func(pod *corev1.Pod, resource string) (sum int64) {
			for _, c := range all(pod) {
				q := c.Resources.Requests[corev1.ResourceName(resource)]
				sum += q.Value()
			}
			return sum
		}
		shared, guaranteed := s.Names.SharedResource(), s.Names.GuaranteedResource()
		if counted(before, guaranteed) == 0 || counted(before, shared)+counted(after, shared) > 0 || !validTotal(before) || !validTotal(after) {
			t.Skip("shares, or invalid")
		}
		if was, is := counted(before, guaranteed), counted(after, guaranteed); was != is && len(before.Spec.InitContainers) == 0 {
			t.Errorf("admitted, and counted for %d exclusive thousandths instead of %d:\n%s\n%s", was, is, formatPod(before), formatPod(after))
		}
	})
}

// validTotal reports whether a pod's own CPU request covers its containers, as the API server
// requires, and names are unique.
func validTotal(pod *corev1.Pod) bool {
	names := map[string]bool{}
	for _, c := range all(pod) {
		names[c.Name] = true
	}
	if len(names) < len(all(pod)) {
		return false
	}
	if pod.Spec.Resources == nil {
		return true
	}
	own := defaulted(pod, admission.DefaultLimits)
	sums := effective(pod, func(c *corev1.Container, name corev1.ResourceName) (resource.Quantity, bool) {
		return requested(&c.Resources, name), true
	})
	sum, request, limit := sums["cpu"], own.Requests["cpu"], own.Limits["cpu"]
	return sum.Cmp(request) <= 0 && request.Cmp(limit) <= 0
}

// TestResizeOfATypesPod checks that a container without a CPU request cannot get one in a pod
// of a workload type.
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
