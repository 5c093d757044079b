package podlevel_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/lint"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestCommands checks for each row the CPUs of each container: in the plan of the daemon, in the
// plan and the sentences of simulate, and in the findings of lint.
func TestCommands(t *testing.T) {
	for _, r := range rows(t) {
		for _, mode := range []admission.PodLevel{admission.PodLevelPod, admission.PodLevelContainer} {
			t.Run(r.title+"/"+string(mode), func(t *testing.T) {
				n := newNode(t, &r, mode)
				n.run(t, admission.AskedBy(&r.pod, r.defaults))
				want := r.cpus[string(mode)]
				if got := placements(inspect.Containers(&n.plan, nil)); got != want {
					t.Errorf("the daemon: %s; want %s", got, want)
				}
				if r.isOnlyOnNode() {
					return
				}
				s := r.simulated(t, n)
				if got := placements(s.Document("").Containers); got != want {
					t.Errorf("simulate: %s; want %s", got, want)
				}
				for _, subject := range s.Subjects() {
					c := &subject.Container
					if text := sentenceOf(c); !strings.Contains(subject.Sentence, text) {
						t.Errorf("explain: %q; want %q for %s", subject.Sentence, text, placement(c))
					}
				}
				if len(r.node) == 0 { // lint assumes a node without options
					agrees(t, r.findings(t, mode), &n.plan)
				}
			})
		}
	}
}

// agrees checks that lint finds a refused container if the daemon refuses one, and that each
// finding with a code has the code of a container in the plan.
func agrees(t *testing.T, findings []lint.Finding, plan *pools.Plan) {
	t.Helper()
	refused, codes := false, []string{}
	for _, at := range plan.Containers() {
		refused, codes = refused || at.Refused != nil, append(codes, string(at.Reason.Code))
	}
	found := slices.ContainsFunc(findings, func(f lint.Finding) bool { return strings.Contains(f.Message, "gets no CPU") })
	if found != refused {
		t.Errorf("lint finds %v; the daemon refuses a container: %t", findings, refused)
	}
	for _, f := range findings {
		if f.Code != "" && !slices.Contains(codes, f.Code) {
			t.Errorf("lint finds %v; the codes of the daemon are %v", f, codes)
		}
	}
}

// isOnlyOnNode reports whether a row depends on facts that only a node has: values that the
// runtime does not report, or containers that start or end later.
func (r *row) isOnlyOnNode() bool {
	for _, property := range []string{"no-quota", "no-total", "ended", "total"} {
		if _, has := r.has(property); has {
			return true
		}
	}
	return len(r.pod.Spec.EphemeralContainers) > 0
}

// simulated returns the node of simulate with the pod of the row.
func (r *row) simulated(t *testing.T, n *node) *simulate.Node {
	t.Helper()
	s, err := simulate.NewNode(n.settings.Config, n.input.Machine.Topology(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Defaults = r.defaults
	if err := s.Add(&simulate.Pod{UID: "u", Spec: r.pod.DeepCopy()}); err != nil {
		t.Fatal(err)
	}
	return s
}

// findings returns the findings of lint.
func (r *row) findings(t *testing.T, mode admission.PodLevel) []lint.Finding {
	t.Helper()
	pod := r.pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	data, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	file := lint.File{Name: "pod.json"}
	manifest.Each(data, func(objects []manifest.Object, bad []error) bool {
		file.Objects = objects
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		return true
	})
	return lint.Settings{Admission: admission.Settings{SharedCPUs: true, GuaranteedCPUs: true, PodLevel: mode, Defaults: r.defaults}}.Check([]lint.File{file})
}

// placements returns the CPUs of containers, by name.
func placements(all []inspect.Container) string {
	var texts []string
	for i := range all {
		texts = append(texts, placement(&all[i]))
	}
	return strings.Join(slices.Sorted(slices.Values(texts)), ", ")
}

func placement(c *inspect.Container) string {
	switch {
	case c.Refused:
		return c.Name + " refused"
	case c.State == "exited":
		return fmt.Sprintf("%s held %d", c.Name, c.CPUs.Len())
	case c.Exclusive:
		return fmt.Sprintf("%s own %d", c.Name, c.CPUs.Len())
	case c.Code == string(pools.CodePodPool):
		return fmt.Sprintf("%s pool %d", c.Name, c.CPUs.Len())
	}
	return c.Name + " " + c.Pool
}

// sentenceOf returns words that the sentence of explain has for a container.
func sentenceOf(c *inspect.Container) string {
	switch {
	case c.Refused:
		return "runs in the shared pool, because it "
	case c.Exclusive:
		return "has exclusive CPUs of the guaranteed pool"
	case c.Code == string(pools.CodePodPool):
		return "runs on the exclusive CPUs of its pod in the guaranteed pool"
	}
	return "runs in the shared pool"
}
