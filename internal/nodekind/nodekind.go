// Package nodekind knows the nodes on which no daemon can run: virtual nodes, whose pods run
// elsewhere, and nodes with another operating system than Linux. It also finds pods that only
// such nodes can run.
package nodekind

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// virtualLabels are labels that virtual nodes have: virtual-kubelet, Liqo, KWOK and EKS Fargate.
func virtualLabels() map[string][]string {
	return map[string][]string{
		"type":                           {"virtual-kubelet", "virtual-node", "kwok"},
		"liqo.io/type":                   {"virtual-node"},
		"eks.amazonaws.com/compute-type": {"fargate"},
	}
}

func virtualTaints() []string {
	return []string{"virtual-kubelet.io/provider", "virtual-node.liqo.io/not-allowed", "kwok.x-k8s.io/node"}
}

func systemLabels() []string { return []string{corev1.LabelOSStable, "beta.kubernetes.io/os"} }

// IsVirtual reports whether the pods of a node run elsewhere.
func IsVirtual(n *corev1.Node) bool {
	for key, value := range n.Labels {
		if slices.Contains(virtualLabels()[key], value) {
			return true
		}
	}
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool {
		return slices.Contains(virtualTaints(), t.Key) || slices.Contains(virtualLabels()[t.Key], t.Value)
	})
}

// System returns the operating system of a node, in lower case. A node without one runs Linux.
func System(n *corev1.Node) string {
	if system := n.Status.NodeInfo.OperatingSystem; system != "" {
		return strings.ToLower(system)
	}
	for _, key := range systemLabels() {
		if system := n.Labels[key]; system != "" {
			return strings.ToLower(system)
		}
	}
	return string(corev1.Linux)
}

// CanRun reports whether a daemon can run on a node.
func CanRun(n *corev1.Node) bool { return !IsVirtual(n) && System(n) == string(corev1.Linux) }

// Excludes reports whether a pod can run only on nodes without a daemon: by its operating system,
// its scheduler, its node selector, or its required node affinity. without holds the names of
// nodes without a daemon. Tolerations do not count: such a pod can run on other nodes, too.
func Excludes(pod *corev1.Pod, without map[string]bool) bool {
	spec := &pod.Spec
	if spec.OS != nil && spec.OS.Name != "" && spec.OS.Name != corev1.Linux || spec.SchedulerName == "fargate-scheduler" || without[spec.NodeName] {
		return true
	}
	label := func(r corev1.NodeSelectorRequirement) bool {
		return r.Operator == corev1.NodeSelectorOpIn && selects(r.Key, r.Values)
	}
	name := func(r corev1.NodeSelectorRequirement) bool {
		other := func(name string) bool { return !without[name] }
		return r.Operator == corev1.NodeSelectorOpIn && r.Key == "metadata.name" && len(r.Values) > 0 && !slices.ContainsFunc(r.Values, other)
	}
	return OnlyOn(pod, label, name)
}

// OnlyOn reports whether a pod can run only on nodes that label or field accepts, by its node
// selector or by each term of its required node affinity. The functions get the requirements for
// labels and for fields of nodes.
func OnlyOn(pod *corev1.Pod, label, field func(corev1.NodeSelectorRequirement) bool) bool {
	spec := &pod.Spec
	for key, value := range spec.NodeSelector {
		if label(corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}) {
			return true
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for _, term := range terms {
		if !slices.ContainsFunc(term.MatchExpressions, label) && !slices.ContainsFunc(term.MatchFields, field) {
			return false
		}
	}
	return len(terms) > 0
}

// selects reports whether a label with one of the values selects only nodes without a daemon.
func selects(key string, values []string) bool {
	other := func(value string) bool { return !slices.Contains(virtualLabels()[key], value) }
	if slices.Contains(systemLabels(), key) {
		other = func(value string) bool { return value == string(corev1.Linux) }
	}
	return len(values) > 0 && !slices.ContainsFunc(values, other)
}
