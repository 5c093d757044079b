package admission_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// TestMutate runs testdata/*.txt. Sections of a file: "settings"; "pod", what is
// mutated; "result", what comes of it, or one line "refused: words" or
// "forbidden: words". A further "then" is added to the result, as another webhook
// or LimitRange would do, before the next "result".
func TestMutate(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runScenario(t, archive)
		})
	}
}

func runScenario(t *testing.T, archive *txtar.Archive) {
	t.Helper()
	var s admission.Settings
	var from admission.Origin
	var err error
	pod, results := &corev1.Pod{}, 0
	for _, section := range archive.Files {
		text := string(section.Data)
		switch section.Name {
		case "settings":
			s, from, err = parseSettings(text)
		case "pod":
			pod = &corev1.Pod{}
			err = parsePod(pod, text)
		case "then":
			pod = pod.DeepCopy()
			err = parsePod(pod, text)
		case "result":
			pod = checkResult(t, s, from, pod, text)
			results++
		default:
			t.Fatalf("unknown section %q", section.Name)
		}
		if err != nil {
			t.Fatalf("section %s: %v", section.Name, err)
		}
	}
	if results == 0 {
		t.Error("no section has the result")
	}
}

// checkResult mutates the pod and compares. It returns the result, or the pod where
// that is refused.
func checkResult(t *testing.T, s admission.Settings, from admission.Origin, pod *corev1.Pod, want string) *corev1.Pod {
	t.Helper()
	before := pod.DeepCopy()
	got, warnings, err := s.Mutate(pod, from)
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the pod itself was changed (-before +after):\n%s", diff)
	}
	if refusal, ok := errors.AsType[*admission.Refusal](err); ok {
		kind := "refused: "
		if refusal.Forbidden {
			kind = "forbidden: "
		}
		if text := kind + refusal.Message; text != strings.TrimSpace(want) {
			t.Errorf("result\n%s\nwant\n%s", text, want)
		}
		return pod
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, formatPod(got)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	annotation := got.Annotations[s.Names.WarningKey()]
	for _, w := range warnings {
		if !strings.Contains(annotation, w.String()) {
			t.Errorf("warning %q is not in the annotation %q", w, annotation)
		}
	}
	checkPatch(t, pod, got)
	again, _, err := s.Mutate(got, from)
	if err != nil {
		t.Fatalf("the result is refused: %v", err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("the result is mutated again (-once +twice):\n%s", diff)
	}
	if errs := s.Validate(got, from); len(errs) > 0 {
		t.Errorf("Validate of the result = %v; want no errors", errs)
	}
	return got
}
