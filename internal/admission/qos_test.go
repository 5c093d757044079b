package admission_test

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// qosClass returns the QoS class by the rules of the Kubernetes documentation.
// BestEffort: no container has a CPU or memory request. Guaranteed: each container has
// limits on both, and equal requests. Otherwise: Burstable. It sets defaults first, as
// the API server does.
func qosClass(pod *corev1.Pod, d admission.Defaults) corev1.PodQOSClass {
	var lists []corev1.ResourceRequirements
	for _, c := range all(pod) {
		lists = append(lists, c.Resources)
	}
	for i := range lists {
		lists[i].Requests = corev1.ResourceList{"cpu": requested(&lists[i], "cpu"), "memory": requested(&lists[i], "memory")}
	}
	if r := pod.Spec.Resources; r != nil && decides(r) {
		lists = []corev1.ResourceRequirements{*defaulted(pod, d)}
	}
	nobody, everybody := true, len(lists) > 0
	for i := range lists {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := lists[i].Requests[name], lists[i].Limits[name]
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

// defaulted returns a pod's own resources with the API server's defaults:
// defaultPodRequests of Kubernetes 1.34 to 1.36, or DefaultPodLevelResources of 1.37.
func defaulted(pod *corev1.Pod, d admission.Defaults) *corev1.ResourceRequirements {
	r := pod.Spec.Resources.DeepCopy()
	if d == admission.DefaultNothing || d == admission.DefaultRequests && len(r.Limits) == 0 {
		return r
	}
	if r.Requests == nil {
		r.Requests = corev1.ResourceList{}
	}
	sums := effective(pod, func(c *corev1.Container, name corev1.ResourceName) (resource.Quantity, bool) {
		_, limited := c.Resources.Limits[name]
		_, requests := c.Resources.Requests[name]
		return requested(&c.Resources, name), limited || requests
	})
	for _, list := range []corev1.ResourceList{sums, r.DeepCopy().Limits} {
		for _, name := range []corev1.ResourceName{"cpu", "memory"} {
			if q, is := list[name]; is {
				if _, explicit := r.Requests[name]; !explicit {
					r.Requests[name] = q
				}
			}
		}
	}
	if d == admission.DefaultRequests {
		return r
	}
	limits := effective(pod, func(c *corev1.Container, name corev1.ResourceName) (resource.Quantity, bool) {
		q, limited := c.Resources.Limits[name]
		return q, limited
	})
	for _, name := range []corev1.ResourceName{"cpu", "memory"} {
		unlimited := slices.ContainsFunc(all(pod), func(c corev1.Container) bool { _, limited := c.Resources.Limits[name]; return !limited })
		_, explicit := r.Limits[name]
		q, requests := r.Requests[name]
		if explicit || unlimited || !requests {
			continue
		}
		if sum := limits[name]; sum.Cmp(q) > 0 {
			q = sum
		}
		if r.Limits == nil {
			r.Limits = corev1.ResourceList{}
		}
		r.Limits[name] = q
	}
	return r
}

// effective returns the most that containers have at one time of CPU and memory, by the
// formula of KEP-753. It has no resource that no container names.
func effective(pod *corev1.Pod, amount func(*corev1.Container, corev1.ResourceName) (resource.Quantity, bool)) corev1.ResourceList {
	sums := corev1.ResourceList{}
	add := func(c corev1.Container, to corev1.ResourceList) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if more, named := amount(&c, name); named {
				q := to[name]
				q.Add(more)
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
	most := corev1.ResourceList{}
	for _, peak := range peaks {
		for name, q := range peak {
			if had, is := most[name]; !is || q.Cmp(had) > 0 {
				most[name] = q
			}
		}
	}
	return most
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
