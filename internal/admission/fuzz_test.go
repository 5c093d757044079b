package admission_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// FuzzMutate checks the properties of every mutated pod.
func FuzzMutate(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, section := range archive.Files {
			if section.Name == "pod" || section.Name == "result" {
				f.Add(string(section.Data), uint16(0b111))
				f.Add(string(section.Data), uint16(0b1000))
				f.Add(string(section.Data), uint16(0b100000))
				f.Add(string(section.Data), uint16(0b1_0100_0110))
				f.Add(string(section.Data), uint16(0b100_0000_0110))
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string, bits uint16) {
		pod := &corev1.Pod{}
		if parsePod(pod, text) != nil {
			t.Skip("no pod")
		}
		s := admission.Settings{
			Types: map[string]bool{"management": bits&1 != 0}, SharedCPUs: bits&2 != 0, GuaranteedCPUs: bits&4 != 0,
			TolerateDepletion: bits&16 != 0,
			Defaults:          admission.Defaults(bits >> 6 & 3 % 3), PodLevelOverride: bits&512 != 0,
			KubeVirt: bits&1024 != 0,
		}
		if bits&256 != 0 {
			s.PodLevel = admission.PodLevelContainer
		}
		if bits&32 != 0 && !s.Types["management"] {
			s.Waits = map[string]admission.Lack{"management": {Schedulable: 3, Nodes: 2, Example: "n1"}}
		}
		from := admission.Origin{Namespace: map[string]string{s.Names.AllowedKey(): "management"}, Manifest: bits&8 != 0}
		before := formatPod(pod)
		got, warnings, err := s.Mutate(pod, from)
		if after := formatPod(pod); after != before {
			t.Fatalf("input pod changed; want no change:\n%s", cmp.Diff(before, after))
		}
		if _, ok := errors.AsType[*admission.Refusal](err); ok {
			if got != nil || len(warnings) > 0 {
				t.Errorf("refused pod = %v, warnings = %v; want neither", got, warnings)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkAlways(t, s, from, pod, got)
		checkPatch(t, pod, got)
		checkVariables(t, from, pod, got)
	})
}

func checkAlways(t *testing.T, s admission.Settings, from admission.Origin, pod, got *corev1.Pod) {
	t.Helper()
	again, warnings, err := s.Mutate(got, from)
	warnings = slices.DeleteFunc(warnings, func(w admission.Warning) bool { return w.Reason == admission.PodPoolEmpty })
	if err != nil || len(warnings) > 0 {
		t.Fatalf("the second time: warnings %v, error %v", warnings, err)
	}
	if diff := cmp.Diff(formatPod(got), formatPod(again)); diff != "" {
		t.Errorf("mutated again (-once +twice):\n%s", diff)
	}
	if errs := s.Validate(got, from); len(errs) > 0 {
		t.Errorf("Validate of the result = %v; want no errors", errs)
	}
	_, managed, _ := s.Names.Target(got.Annotations)
	if !hasCores(s, pod) {
		if before, after := qosClass(pod, s.Defaults), qosClass(got, s.Defaults); before != after {
			t.Errorf("QoS class changed from %s to %s; want no change", before, after)
		}
		if !nodekind.Excludes(pod, nil) { // no pool counts such a pod
			checkConserved(t, s, pod, got, managed)
		}
	}
	if !managed && hasCores(s, got) {
		t.Error("pod without a type has a type's resource; want none")
	}
	checkAnnotations(t, s, got)
}

// checkConserved checks that the counted amounts equal the requested ones.
func checkConserved(t *testing.T, s admission.Settings, pod, got *corev1.Pod, managed bool) {
	t.Helper()
	sum := func(pod *corev1.Pod, name string) (milli int64) {
		for _, c := range all(pod) {
			q := c.Resources.Requests[corev1.ResourceName(name)]
			milli += min(max(q.Value(), 0), workload.MaxMilliCPU)
		}
		return milli
	}
	var want, over int64
	for _, c := range all(pod) {
		q := requested(&c.Resources, corev1.ResourceCPU)
		if q.CmpInt64(1000) > 0 {
			over++ // too large to be worth exact arithmetic here
		}
		if q.Sign() > 0 {
			want += q.MilliValue()
		}
	}
	if over > 0 {
		return
	}
	if r := pod.Spec.Resources; r != nil && decides(r) {
		checkTotal(t, s, pod, got, managed)
		return
	}
	counted := sum(got, s.Names.SharedResource()) + sum(got, s.Names.GuaranteedResource())
	switch cores := sum(got, s.Names.CoresResource("management")); {
	case managed && (cores != want || counted != 0):
		t.Errorf("management pod is counted for %d and %d; want %d and 0", cores, counted, want)
	case !managed && s.SharedCPUs && counted != want:
		t.Errorf("pod is counted for %d; want %d", counted, want)
	}
}

// checkTotal checks that a pod with its own resources is counted by its total request.
func checkTotal(t *testing.T, s admission.Settings, pod, got *corev1.Pod, managed bool) {
	t.Helper()
	if managed || !s.SharedCPUs {
		return
	}
	runs := func(c *corev1.Container) bool { return c.RestartPolicy != nil }
	var counted, requests int64
	for i, c := range all(got) {
		if i < len(got.Spec.InitContainers) && !runs(&c) {
			continue
		}
		for _, name := range []string{s.Names.SharedResource(), s.Names.GuaranteedResource()} {
			q := c.Resources.Requests[corev1.ResourceName(name)]
			counted += q.Value()
		}
		if q := requested(&c.Resources, corev1.ResourceCPU); q.Sign() > 0 {
			requests += q.MilliValue()
		}
	}
	q := defaulted(pod, s.Defaults).Requests[corev1.ResourceCPU]
	if q.CmpInt64(1000) > 0 || q.Sign() < 0 {
		return
	}
	if own := q.MilliValue(); requests <= own && counted != own {
		t.Errorf("pod is counted for %d; want its own request %d", counted, own)
	}
}

// checkAnnotations checks that the webhook's own annotations have only its own values.
func checkAnnotations(t *testing.T, s admission.Settings, pod *corev1.Pod) {
	t.Helper()
	names := map[string]bool{}
	for _, c := range all(pod) {
		names[c.Name] = true
	}
	if len(names) < len(all(pod)) {
		return // the API server will refuse the pod: names are unique
	}
	written := map[string]string{s.Names.TargetKey("management"): workload.TargetValue}
	for _, c := range all(pod) {
		q := c.Resources.Limits[corev1.ResourceName(s.Names.CoresResource("management"))]
		r, found, err := s.Names.ContainerResources(pod.Annotations, "management", c.Name)
		if err != nil || found && r.Shares != workload.MilliCPUToShares(q.Value()) {
			t.Errorf("container %q has %s cores and the annotation %+v, %v", c.Name, q.String(), r, err)
		}
		if _, counted := c.Resources.Limits[corev1.ResourceName(s.Names.CoresResource("management"))]; !counted && found && qosClass(pod, s.Defaults) != corev1.PodQOSBestEffort {
			t.Errorf("container %q has an annotation without cores; want both", c.Name)
		}
		written[s.Names.ResourcesKey(c.Name)] = r.Encode()
	}
	for key, value := range pod.Annotations {
		if s.Names.Requests(key) && written[key] != value {
			t.Errorf("annotation %q survives with value %q; want it removed", key, value)
		}
	}
}

func all(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

func hasCores(s admission.Settings, pod *corev1.Pod) bool {
	return slices.ContainsFunc(all(pod), func(c corev1.Container) bool {
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name := range list {
				if _, ok := s.Names.CoresType(string(name)); ok {
					return true
				}
			}
		}
		return false
	})
}
