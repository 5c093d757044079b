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

func cpuManagerKeys() [2]string { return [2]string{"kubevirt.io/cpumanager", "cpumanager"} }

// freeLauncher removes the node selector for a static kubelet from the pod of a virtual machine
// with exclusive CPUs of the guaranteed pool. The request for these CPUs selects the nodes.
func (s Settings) freeLauncher(pod *corev1.Pod) {
	if !s.KubeVirt || pod.Labels[launcherKey] != launcherValue || !s.requestsGuaranteed(pod) {
		return
	}
	for _, key := range cpuManagerKeys() {
		if pod.Spec.NodeSelector[key] == "true" {
			pod.Spec.NodeSelector = maps.Clone(pod.Spec.NodeSelector) // the pod of the caller has the same map
			delete(pod.Spec.NodeSelector, key)
		}
	}
}

// requestsGuaranteed reports whether a container of a pod that [Settings.Mutate] has changed
// counts for the guaranteed pool.
func (s Settings) requestsGuaranteed(pod *corev1.Pod) bool {
	for c := range containers(pod) {
		if q := c.Resources.Requests[corev1.ResourceName(s.Names.GuaranteedResource())]; q.Sign() > 0 {
			return true
		}
	}
	return false
}
