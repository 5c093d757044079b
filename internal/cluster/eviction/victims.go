package eviction

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// critical is the least priority that no pod of a user has (scheduling.k8s.io:
// system-cluster-critical).
const critical = 2_000_000_000

// Victims are the pods of a node that are to go when its shared pool is depleted, in the
// order in which they go: the lowest priority first, and of equals the youngest.
//
// They are those without a CPU request, of which the shared pool keeps no share. Not
// those of a workload type, which do not use it; nor those that would be back at once:
// static pods and their copies, and all that tolerate the taint, as agents on every node
// do; nor what the cluster cannot do without.
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

// runs says that a pod uses CPUs and is not about to end anyway.
func runs(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed
}

func spared(p *corev1.Pod, names workload.Names) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || managed(p, names) || priority(p) >= critical || isCriticalClass(p.Spec.PriorityClassName) || tolerates(p)
}

// isCriticalClass also tells pods of the cluster's own classes whose priority has not been
// filled in.
func isCriticalClass(name string) bool {
	return name == "system-cluster-critical" || name == "system-node-critical"
}

// managed says that a pod is of a workload type, or asks to be: by its annotation, or
// by what it is counted by.
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

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// tolerates says that a pod may run where the taint of depletion is.
func tolerates(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool {
		every := t.Operator == corev1.TolerationOpExists
		return (t.Key == workload.DepletedTaint || t.Key == "" && every) &&
			(t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule) &&
			(every || t.Value == Allowed)
	})
}
