package admission

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Asked holds the requests and limits of a pod for CPU, as a kubelet passes them to the
// runtime.
type Asked struct {
	Class corev1.PodQOSClass
	// Pod is the largest amount that the pod needs at one time (KEP-753), or the amount in
	// spec.resources.
	Pod Amounts
	// Containers are init containers, sidecars among them, and then the pod's own, in
	// the order in which they are started.
	Containers []AskedContainer
}

// Amounts are thousandths of a CPU, 0..workload.MaxMilliCPU; a limit of 0 is none.
type Amounts struct{ Request, Limit int64 }

// AskedContainer holds the amounts of one container. In a pod with spec.resources, the pod's
// limit replaces a missing limit.
type AskedContainer struct {
	Name string
	// Init is true if the container ends before the next one starts. It is false for a
	// sidecar.
	Init bool
	Amounts
}

// AskedBy returns the requests and limits of a pod, with defaults of spec.resources.
func AskedBy(pod *corev1.Pod, d Defaults) Asked {
	a := Asked{Class: d.class(pod)}
	requests, requested := together(pod, corev1.ResourceCPU)
	a.Pod = Amounts{milliCPU(requests), milliCPU(limitsTogether(pod, corev1.ResourceCPU))}
	var t total
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		own := d.own(pod)
		q, explicit := own.Requests[corev1.ResourceCPU]
		limit, limited := own.Limits[corev1.ResourceCPU]
		if limited {
			a.Pod.Limit = milliCPU(limit)
			t.limit = a.Pod.Limit
		}
		switch {
		case explicit:
			a.Pod.Request = milliCPU(q)
		case !requested:
			a.Pod.Request = a.Pod.Limit // as the kubelet gives it to the sandbox
		}
	}
	for i, c := range containers(pod) {
		a.Containers = append(a.Containers, AskedContainer{Name: c.Name, Init: isInit(pod, i, c), Amounts: t.amountsOf(c)})
	}
	return a
}

// OwnResources returns the resources of the whole pod, with their defaults, and false if
// spec.resources does not decide about the QoS class.
func OwnResources(pod *corev1.Pod, d Defaults) (corev1.ResourceRequirements, bool) {
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return corev1.ResourceRequirements{}, false
	}
	return d.own(pod), true
}
