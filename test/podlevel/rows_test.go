package podlevel_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// row is a row of the decision table.
type row struct {
	title string
	pod   corev1.Pod
	// node holds the words of the line "node".
	node     []string
	defaults admission.Defaults
	// want holds the resources by mode. cpus holds the CPUs of each container by mode.
	want, cpus map[string]string
}

// has reports whether the node has a property, and returns its value.
func (r *row) has(property string) (value string, has bool) {
	for _, word := range r.node {
		if name, value, _ := strings.Cut(word, "="); name == property {
			return value, true
		}
	}
	return "", false
}

func rows(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile("testdata/rows.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all []row
	for _, f := range txtar.Parse(data).Files {
		r, err := parseRow(f)
		if err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		all = append(all, r)
	}
	return all
}

func parseRow(f txtar.File) (row, error) {
	r := row{title: f.Name, want: map[string]string{}, cpus: map[string]string{}}
	r.pod.Name, r.pod.Namespace, r.pod.UID = "p", "default", "u"
	for line := range strings.Lines(string(f.Data)) {
		key, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if mode, is := strings.CutSuffix(key, ":"); is {
			r.want[mode], r.cpus[mode], _ = strings.Cut(rest, "; ")
			continue
		}
		if err := r.parseLine(key, rest); err != nil {
			return r, fmt.Errorf("line %q: %w", line, err)
		}
	}
	if len(r.want) != 2 || len(r.pod.Spec.Containers) == 0 {
		return r, fmt.Errorf("%d containers, expectations %v; want some containers and both modes", len(r.pod.Spec.Containers), r.want)
	}
	return r, nil
}

func (r *row) parseLine(key, rest string) error {
	switch key {
	case "node":
		r.node = strings.Fields(rest)
		return nil
	case "kubernetes":
		r.defaults = admission.DefaultNothing
		if rest == "static" {
			return nil
		}
		minor, err := strconv.Atoi(rest)
		r.defaults = admission.DefaultsOf(minor)
		return err
	case "pod":
		amounts, err := parseAmounts(rest)
		r.pod.Spec.Resources = &amounts
		return err
	}
	name, rest, _ := strings.Cut(rest, " ")
	amounts, err := parseAmounts(rest)
	if err != nil {
		return err
	}
	c := corev1.Container{Name: name, Resources: amounts}
	always, spec := corev1.ContainerRestartPolicyAlways, &r.pod.Spec
	switch key {
	case "app":
		spec.Containers = append(spec.Containers, c)
	case "sidecar":
		c.RestartPolicy = &always
		spec.InitContainers = append(spec.InitContainers, c)
	case "init":
		spec.InitContainers = append(spec.InitContainers, c)
	case "debug":
		spec.EphemeralContainers = append(spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name}})
	default:
		return fmt.Errorf("unknown kind %q", key)
	}
	return nil
}

// parseAmounts reads CPUs and memory of requests and limits.
func parseAmounts(text string) (corev1.ResourceRequirements, error) {
	var r corev1.ResourceRequirements
	requests, limits, _ := strings.Cut(text, "|")
	for _, part := range []struct {
		text string
		list *corev1.ResourceList
	}{{requests, &r.Requests}, {limits, &r.Limits}} {
		for word := range strings.FieldsSeq(part.text) {
			q, err := resource.ParseQuantity(word)
			if err != nil {
				return r, err
			}
			name := corev1.ResourceCPU
			if strings.HasSuffix(word, "i") {
				name = corev1.ResourceMemory
			}
			if *part.list == nil {
				*part.list = corev1.ResourceList{}
			}
			(*part.list)[name] = q
		}
	}
	return r, nil
}

// TestRows checks for each row which resources the webhook gives the containers, and how much
// the node's accounts subtract. The resources of the guaranteed pool must be the exclusive CPUs
// that the node holds for the pod, unless a container is refused or the node lacks facts.
func TestRows(t *testing.T) {
	for _, r := range rows(t) {
		for _, mode := range []admission.PodLevel{admission.PodLevelPod, admission.PodLevelContainer} {
			t.Run(r.title+"/"+string(mode), func(t *testing.T) {
				s := admission.Settings{SharedCPUs: true, GuaranteedCPUs: true, PodLevel: mode, Defaults: r.defaults}
				mutated, warnings, err := s.Mutate(&r.pod, admission.Origin{})
				if err != nil {
					t.Fatal(err)
				}
				got, exclusive := counted(s, mutated)
				for _, w := range warnings {
					if w.Reason != admission.PodPoolEmpty {
						t.Errorf("warning = %v; want PodPoolEmpty", w)
					}
					got = append(got, "warning "+w.Subject)
				}
				n := newNode(t, &r, mode)
				n.run(t, admission.AskedBy(mutated, r.defaults))
				unaccounted := n.unaccounted(s.Names, record(mutated, r.defaults))
				got = append(got, unaccounted...)
				if len(got) == 0 {
					got = []string{"none"}
				}
				if text := strings.Join(got, ", "); text != r.want[string(mode)] {
					t.Errorf("got  %s\nwant %s", text, r.want[string(mode)])
				}
				if held := n.held(); int64(held)*1000 != exclusive && len(unaccounted) == 0 {
					t.Errorf("the node holds %d CPUs, and the webhook counts %d thousandths", held, exclusive)
				}
			})
		}
	}
}

// counted returns the pool resources of containers, and the sum of the guaranteed resource of
// all containers that run as long as the pod.
func counted(s admission.Settings, pod *corev1.Pod) (all []string, exclusive int64) {
	for i, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, pool := range []struct{ resource, name string }{{s.Names.GuaranteedResource(), "exclusive"}, {s.Names.SharedResource(), "shared"}} {
			q, is := c.Resources.Requests[corev1.ResourceName(pool.resource)]
			if !is {
				continue
			}
			all = append(all, fmt.Sprintf("%s %d %s", c.Name, q.Value(), pool.name))
			if pool.name == "exclusive" && (i >= len(pod.Spec.InitContainers) || c.RestartPolicy != nil) {
				exclusive += q.Value()
			}
		}
	}
	return all, exclusive
}
