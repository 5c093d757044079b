package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// critical is the lowest priority that pods of users cannot have (scheduling.k8s.io:
// system-cluster-critical).
const critical = 2_000_000_000

// Victims returns the pods that must leave a node whose shared pool is depleted. The pod
// with the lowest priority is the first, and of equals the youngest.
//
// Victims have no CPU request, so that the shared pool reserves no CPU time for them. These
// pods stay:
//
//   - pods of a workload type: they do not use the shared pool
//   - static pods and pods that tolerate the taint, such as agents on every node: they would
//     be back at once
//   - pods that are critical for the cluster
func Victims(pods []corev1.Pod, node string, names workload.Names) []*corev1.Pod {
	var all []*corev1.Pod
	for i := range pods {
		if p := &pods[i]; p.Spec.NodeName == node && runs(p) && !spared(p, names) && !admission.RequestsCPU(p) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(
			cmp.Compare(priority(a), priority(b)),
			-a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// runs reports whether a pod uses CPUs and is not being deleted.
func runs(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

// spared reports whether a pod must stay, see Victims.
func spared(p *corev1.Pod, names workload.Names) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	class := p.Spec.PriorityClassName // the priority of a pod may not be set yet
	isCritical := priority(p) >= critical || class == "system-cluster-critical" || class == "system-node-critical"
	return mirror || managed(p, names) || isCritical || tolerates(p)
}

// managed reports whether a pod has, or requests, a workload type: by its annotation, or by
// the resource that it requests.
func managed(p *corev1.Pod, names workload.Names) bool {
	if _, asks, err := names.TargetType(p.Annotations); asks || err != nil {
		return true
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		for name := range c.Resources.Requests {
			if _, cores := names.CoresType(string(name)); cores {
				return true
			}
		}
	}
	return false
}

// priority returns the priority of a pod, 0 by default.
func priority(p *corev1.Pod) int32 { return ptr.Deref(p.Spec.Priority, 0) }

// tolerates reports whether a pod tolerates the taint of depletion.
func tolerates(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		every := t.Operator == corev1.TolerationOpExists
		return (t.Key == workload.DepletedTaint || t.Key == "" && every) &&
			(t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) &&
			(every || t.Value == Allowed)
	})
}
