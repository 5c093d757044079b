package admission

import (
	"iter"
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
	for _, c := range containers(&d) {
		c.Resources.Requests = maps.Clone(c.Resources.Requests)
		c.Resources.Limits = maps.Clone(c.Resources.Limits)
	}
	return &d
}

// containers yields the containers that may ask for resources, numbered: init containers,
// sidecars among them, and the pod's own. Ephemeral containers may not.
func containers(pod *corev1.Pod) iter.Seq2[int, *corev1.Container] {
	return func(yield func(int, *corev1.Container) bool) {
		for i := range len(pod.Spec.InitContainers) + len(pod.Spec.Containers) {
			if !yield(i, containerAt(pod, i)) {
				return
			}
		}
	}
}

// containerAt returns the container with a number of [containers].
func containerAt(pod *corev1.Pod, i int) *corev1.Container {
	if inits := len(pod.Spec.InitContainers); i >= inits {
		return &pod.Spec.Containers[i-inits]
	}
	return &pod.Spec.InitContainers[i]
}

// Running yields the containers that run as long as the pod: sidecars and the pod's own.
func Running(pod *corev1.Pod) iter.Seq[*corev1.Container] {
	return func(yield func(*corev1.Container) bool) {
		for i, c := range containers(pod) {
			if !isInit(pod, i, c) && !yield(c) {
				return
			}
		}
	}
}

// isInit reports whether container i of a pod ends before the next one starts. A sidecar does not.
func isInit(pod *corev1.Pod, i int, c *corev1.Container) bool {
	return i < len(pod.Spec.InitContainers) && !sidecar(c)
}

// anyOf reports whether a condition holds for a container that may ask for resources.
func anyOf(pod *corev1.Pod, holds func(*corev1.Container) bool) bool {
	for _, c := range containers(pod) {
		if holds(c) {
			return true
		}
	}
	return false
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
	return bounded(q, workload.MaxMilliCPU/1000, q.MilliValue)
}

// count returns an amount of an extended resource, which counts thousandths of a
// CPU, in the same range.
func count(q resource.Quantity) int64 { return bounded(q, workload.MaxMilliCPU, q.Value) }

func bounded(q resource.Quantity, most int64, value func() int64) int64 {
	switch {
	case q.Sign() <= 0:
		return 0
	case q.CmpInt64(most) >= 0:
		return workload.MaxMilliCPU
	}
	return value()
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
	for i, c := range containers(pod) {
		found = found || has(&c.Resources, name)
		if !isInit(pod, i, c) {
			sum.Add(request(&c.Resources, name))
			continue
		}
		before := sum.DeepCopy() // an amount of the pod's must not be added to: its copies share digits
		if before.Add(request(&c.Resources, name)); before.Cmp(most) > 0 {
			most = before
		}
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
