package admission

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// draft returns a copy of a pod with its own annotations, containers and resources.
// It shares all other fields with the pod.
func draft(pod *corev1.Pod) *corev1.Pod {
	d := *pod
	d.Annotations = maps.Clone(pod.Annotations)
	d.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	d.Spec.Containers = slices.Clone(pod.Spec.Containers)
	for c := range containers(&d) {
		c.Resources.Requests = maps.Clone(c.Resources.Requests)
		c.Resources.Limits = maps.Clone(c.Resources.Limits)
	}
	return &d
}

// containers yields the containers that may ask for resources: init containers,
// sidecars among them, and the pod's own. Ephemeral containers may not.
func containers(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				if !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// running yields the containers that run as long as the pod: sidecars and the pod's own.
func running(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; sidecar(c) && !yield(c) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
	}
}

// request returns the request for a resource. Without a request it returns the
// limit, as the API server does for each pod that it decodes. A manifest in a file
// has not passed the API server yet.
func request(r *corev1.ResourceRequirements, name corev1.ResourceName) resource.Quantity {
	if q, ok := r.Requests[name]; ok {
		return q
	}
	return r.Limits[name]
}

// milliCPU returns an amount of CPU in thousandths, rounded up as the scheduler
// does, 0..workload.MaxMilliCPU. No machine has as many CPUs; the bound keeps the
// arithmetic from overflowing.
func milliCPU(q resource.Quantity) int64 {
	const mostCPUs = workload.MaxMilliCPU / 1000
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(mostCPUs) >= 0:
		return workload.MaxMilliCPU
	}
	return q.MilliValue()
}

// count returns an amount of an extended resource, which counts thousandths of a
// CPU, in the same range.
func count(q resource.Quantity) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(workload.MaxMilliCPU) >= 0:
		return workload.MaxMilliCPU
	}
	return q.Value()
}

// has reports whether a container requests or limits any amount of a resource.
func has(r *corev1.ResourceRequirements, name corev1.ResourceName) bool {
	_, requests := r.Requests[name]
	_, limits := r.Limits[name]
	return requests || limits
}

// remove takes a resource out of requests and limits. One that stays in the
// limits would be a request again: see [request].
func remove(r *corev1.ResourceRequirements, name corev1.ResourceName) {
	delete(r.Requests, name)
	delete(r.Limits, name)
}

// set makes milli request and limit of an extended resource, which have to be equal.
func set(r *corev1.ResourceRequirements, name string, milli int64) {
	q := *resource.NewQuantity(milli, resource.DecimalSI)
	put(&r.Requests, corev1.ResourceName(name), q)
	put(&r.Limits, corev1.ResourceName(name), q)
}

func put(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = q
}

// together returns the largest amount of a resource that the containers of a pod request at one
// time. Sidecars and main containers run together. So do an init container and the sidecars
// before it. found is false if no container names the resource.
func together(pod *corev1.Pod, name corev1.ResourceName) (sum resource.Quantity, found bool) {
	var most resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		found = found || has(&c.Resources, name)
		if sidecar(c) {
			sum.Add(request(&c.Resources, name))
			continue
		}
		before := sum.DeepCopy() // an amount of the pod's must not be added to: its copies share digits
		if before.Add(request(&c.Resources, name)); before.Cmp(most) > 0 {
			most = before
		}
	}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		found = found || has(r, name)
		sum.Add(request(r, name))
	}
	if most.Cmp(sum) > 0 {
		sum = most
	}
	return sum, found
}

// limitsTogether returns the sum of the limits of the containers that run at one time.
func limitsTogether(pod *corev1.Pod, name corev1.ResourceName) resource.Quantity {
	return resourcehelper.AggregateContainerLimits(pod, resourcehelper.PodResourcesOptions{})[name]
}

// sidecar reports whether an init container runs as long as the pod.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
