package admission

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/cpupoold/cpupoold/internal/nodekind"
)

// Exceptions select pods that request no resource of the shared and the guaranteed pool, although
// its switch is on. Requests for workload types stay.
type Exceptions struct {
	// Namespaces are names of namespaces. All their pods are exceptions. Default: none.
	Namespaces []string `yaml:"namespaces"`
	// NodeLabels are labels of nodes with their values. Pods that can run only on nodes with such a
	// label are exceptions. A label without values stands for all values. Default: none.
	NodeLabels map[string][]string `yaml:"nodeLabels"`
}

// Check calls wrong for each value that is not valid.
func (e *Exceptions) Check(wrong func(key, value, reason string)) {
	for _, name := range e.Namespaces {
		if len(validation.IsDNS1123Label(name)) > 0 {
			wrong("exceptions.namespaces", name, "is no name of a namespace; write each name in full")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.NodeLabels)) {
		if len(validation.IsQualifiedName(key)) > 0 {
			wrong("exceptions.nodeLabels", key, "is no key of a label; write one like karpenter.sh/nodepool")
		}
		for _, value := range e.NodeLabels[key] {
			if len(validation.IsValidLabelValue(value)) > 0 {
				wrong("exceptions.nodeLabels."+key, value, "is no value of a label; write up to 63 letters, digits and -_.")
			}
		}
	}
}

// Excepts reports whether a pod requests no resource of a pool because of the exceptions.
func (s Settings) Excepts(pod *corev1.Pod) bool {
	e := &s.Exceptions
	field := func(corev1.NodeSelectorRequirement) bool { return false }
	return slices.Contains(e.Namespaces, pod.Namespace) || len(e.NodeLabels) > 0 && nodekind.OnlyOn(pod, e.selects, field)
}

// selects reports whether a requirement selects only nodes with one of the labels.
func (e *Exceptions) selects(r corev1.NodeSelectorRequirement) bool {
	values, listed := e.NodeLabels[r.Key]
	other := func(value string) bool { return !slices.Contains(values, value) }
	switch {
	case !listed:
		return false
	case r.Operator == corev1.NodeSelectorOpExists:
		return len(values) == 0
	}
	return r.Operator == corev1.NodeSelectorOpIn && (len(values) == 0 || !slices.ContainsFunc(r.Values, other))
}
