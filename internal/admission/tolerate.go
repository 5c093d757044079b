package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// tolerate lets a pod be scheduled to nodes whose shared pool is depleted. Static pods
// are not scheduled.
func (s Settings) tolerate(pod *corev1.Pod, from Origin) {
	if !s.TolerateDepletion || from.Manifest || slices.ContainsFunc(pod.Spec.Tolerations, toleratesDepletion) {
		return
	}
	pod.Spec.Tolerations = append(slices.Clip(pod.Spec.Tolerations), corev1.Toleration{
		Key: workload.DepletedTaint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule,
	})
}

// toleratesDepletion reports whether a toleration covers the taint with any value.
func toleratesDepletion(t corev1.Toleration) bool {
	return t.Operator == corev1.TolerationOpExists &&
		(t.Key == "" || t.Key == workload.DepletedTaint) &&
		(t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule)
}

// RequestsCPU reports whether a pod or one of its containers requests CPU, and so has
// a guaranteed share of a pool.
func RequestsCPU(pod *corev1.Pod) bool {
	if r := pod.Spec.Resources; r != nil && milliCPU(request(r, corev1.ResourceCPU)) > 0 {
		return true
	}
	return anyOf(pod, func(c *corev1.Container) bool { return requestOf(c) > 0 })
}
