package daemon

import (
	"path"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	manifests "github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// memoryTree adds memory limits to a tree of cgroups.
type memoryTree struct {
	cgroup.Tree
	limits map[string]string // by the name of the cgroup
}

func (t memoryTree) ReadFile(name string, limit int) ([]byte, error) {
	if text, ok := t.limits[path.Dir(name)]; ok && path.Base(name) == "memory.max" {
		return []byte(text + "\n"), nil
	}
	return t.Tree.ReadFile(name, limit)
}

// ofKubelet returns amounts as a kubelet gives them to the runtime.
func ofKubelet(a admission.Amounts) cri.Resources {
	return cri.Resources{Shares: workload.MilliCPUToShares(a.Request), Quota: a.Limit * 100, Period: 100_000}
}

// runMistake runs a pod as the kubelet does, and adds the memory limits of its containers.
func (n *node) runMistake(pod *corev1.Pod, limits map[string]string) {
	asked := admission.AskedBy(pod, admission.DefaultLimits)
	id := n.RunPodOf(pod.Name, pod.Namespace, strings.ToLower(string(asked.Class)), ofKubelet(asked.Pod), pod.Annotations)
	memory := map[string]string{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			memory[list[i].Name] = "max"
			if q := list[i].Resources.Limits.Memory(); !q.IsZero() {
				memory[list[i].Name] = strconv.FormatInt(q.Value(), 10)
			}
		}
	}
	for _, c := range asked.Containers {
		container := n.RunContainer(id, c.Name, ofKubelet(c.Amounts))
		limits[n.Runtime.Cgroup(container)] = memory[c.Name]
		if c.Init {
			if err := n.Runtime.StopContainer(container); err != nil {
				n.T.Fatal(err)
			}
		}
	}
}

// TestSentencesOfMistakes checks that the daemon has the sentence that the plugin has, or the one
// of the fixture that is less specific.
func TestSentencesOfMistakes(t *testing.T) {
	archive, err := txtar.ParseFile("../../verdict/testdata/mistakes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	r := n.start()
	limits := map[string]string{}
	want, pods := map[string]string{}, map[string]string{}
	for _, f := range archive.Files {
		name, kind, _ := strings.Cut(f.Name, ".")
		if kind != "yaml" {
			want[name] = strings.TrimSpace(string(f.Data)) // NAME.node comes after NAME.want
			continue
		}
		objects, errs := manifests.Objects(f.Data)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		n.runMistake(objects[0].Pod, limits)
		pods[name] = objects[0].Pod.Namespace + "/" + objects[0].Pod.Name
	}
	r.quiet()
	o := view.NewAnswers(r.loop.publisher.Latest, cgroup.New(memoryTree{n.Tree, limits}), telemetry.Build{}, "", "edge-1")
	for name, pod := range pods {
		// The daemon may see the pod, or the end of an init container, later.
		r.Eventually(name+": "+want[name], func() bool {
			e, err := o.Explain(pod)
			if err != nil {
				return false
			}
			got := map[string]bool{}
			for i := range e.Subjects {
				got[e.Subjects[i].Sentence] = true
			}
			return got[want[name]] && len(got) == 1
		})
	}
}
