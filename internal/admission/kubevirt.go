package admission

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// virt-controller writes this label on the pod of each virtual machine, and one of the selectors
// if the machine has dedicated CPUs (kubevirt of August 2026, pkg/virt-controller/services,
// template.go and nodeselectorrenderer.go). Before kubevirt#14892 it was the second selector.
// Versions in between require one of the two labels by node affinity, which stays.
const (
	launcherKey   = "kubevirt.io"
	launcherValue = "virt-launcher"
)

// freeLauncher removes the node selector for a static kubelet from the pod of a virtual machine
// with exclusive CPUs of the guaranteed pool. The request for these CPUs selects the nodes.
func (s Settings) freeLauncher(pod *corev1.Pod) {
	if !s.KubeVirt || pod.Labels[launcherKey] != launcherValue || !anyOf(pod, s.pools().countGuaranteed) {
		return
	}
	for _, key := range []string{"kubevirt.io/cpumanager", "cpumanager"} {
		if pod.Spec.NodeSelector[key] == "true" {
			pod.Spec.NodeSelector = maps.Clone(pod.Spec.NodeSelector) // the pod of the caller has the same map
			delete(pod.Spec.NodeSelector, key)
		}
	}
}
