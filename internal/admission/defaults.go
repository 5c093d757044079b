package admission

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Defaults states which missing values of spec.resources are set before a kubelet sees a
// pod. The zero value is for the newest API server.
type Defaults int

const (
	// DefaultLimits is for an API server of Kubernetes 1.37 or later. It sets requests, and a
	// limit if all containers have one, after all webhooks (kubernetes 1.37.0,
	// pkg/api/pod/util.go, DefaultPodLevelResources).
	DefaultLimits Defaults = iota
	// DefaultRequests is for Kubernetes 1.34 to 1.36. Requests are set in each pod that has a
	// limit of its own, before webhooks and after them (pkg/apis/core/v1/defaults.go,
	// defaultPodRequests).
	DefaultRequests
	// DefaultNothing is for static pods of a kubelet 1.37 or later: no API server sees them
	// before the kubelet does.
	DefaultNothing
)

// DefaultsOf returns the defaults of the API server of Kubernetes 1.minor.
func DefaultsOf(minor int) Defaults {
	if minor < 37 {
		return DefaultRequests
	}
	return DefaultLimits
}

// own returns the resources of a pod whose own resources decide about its QoS class, as the kubelet
// sees them. A missing request is the sum of the containers' requests, or the limit if no container
// has a request. A missing limit is the sum of the containers' limits, at least the request.
func (d Defaults) own(pod *corev1.Pod) corev1.ResourceRequirements {
	r := *pod.Spec.Resources
	if d == DefaultNothing || d == DefaultRequests && len(r.Limits) == 0 {
		return r
	}
	r.Requests, r.Limits = maps.Clone(r.Requests), maps.Clone(r.Limits)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		isUnlimited := func(c *corev1.Container) bool {
			_, limited := c.Resources.Limits[name]
			return !limited
		}
		limit, limited := r.Limits[name]
		if _, explicit := r.Requests[name]; !explicit {
			if sum, found := together(pod, name); found {
				put(&r.Requests, name, sum)
			} else if limited {
				put(&r.Requests, name, limit)
			}
		}
		least, requested := r.Requests[name]
		if d == DefaultRequests || limited || !requested || anyOf(pod, isUnlimited) {
			continue
		}
		sum := limitsTogether(pod, name)
		if least.Cmp(sum) > 0 {
			sum = least
		}
		put(&r.Limits, name, sum)
	}
	return r
}

// class returns the QoS class that the kubelet finds (ComputePodQOS). OpenShift's admission
// has another rule, by which a CPU request of 0 counts as none.
func (d Defaults) class(pod *corev1.Pod) corev1.PodQOSClass {
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		own := d.own(pod)
		return classOf(func(name corev1.ResourceName) resource.Quantity { return own.Requests[name] }, own.Limits)
	}
	var all corev1.PodQOSClass
	for _, c := range containers(pod) {
		one := classOf(func(name corev1.ResourceName) resource.Quantity { return request(&c.Resources, name) }, c.Resources.Limits)
		switch {
		case all == "":
			all = one
		case all != one:
			return corev1.PodQOSBurstable
		}
	}
	return cmp.Or(all, corev1.PodQOSBestEffort)
}

// classOf returns the QoS class of one set of resources.
func classOf(requested func(corev1.ResourceName) resource.Quantity, limits corev1.ResourceList) corev1.PodQOSClass {
	by := func(name corev1.ResourceName) corev1.PodQOSClass {
		q, limit := requested(name), limits[name]
		switch {
		case q.Sign() <= 0 && limit.Sign() <= 0:
			return corev1.PodQOSBestEffort
		case q.Cmp(limit) == 0:
			return corev1.PodQOSGuaranteed
		}
		return corev1.PodQOSBurstable
	}
	cpu := by(corev1.ResourceCPU)
	if cpu != by(corev1.ResourceMemory) {
		return corev1.PodQOSBurstable
	}
	return cpu
}
