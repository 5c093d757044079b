package admission_test

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// qosClass is the QoS class by the words of the Kubernetes documentation: nobody asks
// for CPU or memory; or everybody has limits on both, and requests that equal them;
// or neither. It defaults requests first, as the API server does.
func qosClass(pod *corev1.Pod) corev1.PodQOSClass {
	var lists []corev1.ResourceRequirements
	for _, c := range all(pod) {
		lists = append(lists, c.Resources)
	}
	if r := pod.Spec.Resources; r != nil && decides(r) {
		lists = []corev1.ResourceRequirements{*defaulted(pod)}
	}
	nobody, everybody := true, len(lists) > 0
	for i := range lists {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := requested(&lists[i], name), lists[i].Limits[name]
			nobody = nobody && request.Sign() <= 0 && limit.Sign() <= 0
			everybody = everybody && limit.Sign() > 0 && request.Cmp(limit) == 0
		}
	}
	switch {
	case nobody:
		return corev1.PodQOSBestEffort
	case everybody:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// defaulted are a pod's own resources with the API server's requests (defaultPodRequests).
func defaulted(pod *corev1.Pod) *corev1.ResourceRequirements {
	r := pod.Spec.Resources.DeepCopy()
	sums := corev1.ResourceList{}
	add := func(c corev1.Container, to corev1.ResourceList) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			_, requests := c.Resources.Requests[name]
			_, limits := c.Resources.Limits[name]
			if q := to[name]; requests || limits {
				q.Add(requested(&c.Resources, name))
				to[name] = q
			}
		}
	}
	peaks := []corev1.ResourceList{sums}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy == nil {
			peaks = append(peaks, sums.DeepCopy())
			add(c, peaks[len(peaks)-1])
		} else {
			add(c, sums)
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c, sums)
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	explicit := r.DeepCopy().Requests
	for _, peak := range peaks {
		for name, q := range peak {
			if _, ok := explicit[name]; !ok && len(r.Limits) > 0 && q.Cmp(r.Requests[name]) >= 0 {
				r.Requests[name] = q
			}
		}
	}
	return r
}

func decides(r *corev1.ResourceRequirements) bool {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if name == "cpu" || name == "memory" || strings.HasPrefix(string(name), "hugepages-") {
				return true
			}
		}
	}
	return false
}

func requested(r *corev1.ResourceRequirements, name corev1.ResourceName) resource.Quantity {
	if q, ok := r.Requests[name]; ok {
		return q
	}
	return r.Limits[name]
}
