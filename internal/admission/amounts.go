package admission

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// draft copies what is changed of a pod: annotations, containers and their
// resources. It shares all else with the pod.
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

// request returns what is requested of a resource. A limit alone is a request as
// well: the API server makes it one in each pod that it decodes, and a manifest in
// a file has not been there yet.
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

// has says that a container requests or limits a resource, in whatever amount.
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

// podLevel says that the pod's own resources decide about its QoS class (kubelet
// PodLevelResources).
func podLevel(pod *corev1.Pod) bool {
	r := pod.Spec.Resources
	if r == nil {
		return false
	}
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name := range list {
			if name == corev1.ResourceCPU || name == corev1.ResourceMemory || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
				return true
			}
		}
	}
	return false
}

// class is the QoS class that the kubelet will find (ComputePodQOS), after the API
// server's defaulting. OpenShift's admission has a rule of its own, by which a CPU
// request of 0 counts as none.
func class(pod *corev1.Pod) corev1.PodQOSClass {
	if podLevel(pod) {
		return classOf(withRequests(pod))
	}
	var all corev1.PodQOSClass
	for c := range containers(pod) {
		switch one := classOf(&c.Resources); {
		case all == "":
			all = one
		case all != one:
			return corev1.PodQOSBurstable
		}
	}
	if all == "" {
		return corev1.PodQOSBestEffort
	}
	return all
}

// withRequests returns a pod's own resources with the requests that the API server
// will find: a limit alone is one only if no container requests the resource; else
// the pod requests what its containers do (defaultPodRequests). From Kubernetes 1.37
// on it does so when all webhooks have seen the pod.
func withRequests(pod *corev1.Pod) *corev1.ResourceRequirements {
	r := *pod.Spec.Resources
	if len(r.Limits) == 0 {
		return &r
	}
	r.Requests = maps.Clone(r.Requests)
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if _, explicit := r.Requests[name]; explicit {
			continue
		}
		if q, found := together(pod, name); found {
			put(&r.Requests, name, q)
		}
	}
	return &r
}

// together is what the containers of a pod request at most at one time, and false
// when none of them says anything.
func together(pod *corev1.Pod, name corev1.ResourceName) (sum resource.Quantity, found bool) {
	return peak(pod, name, func(r *corev1.ResourceRequirements) resource.Quantity { return request(r, name) })
}

// peak is the most of an amount that the containers of a pod have at one time, and
// false when none of them says anything of the resource: those that run together, or
// an init container with the sidecars that run before it.
func peak(pod *corev1.Pod, name corev1.ResourceName, amount func(*corev1.ResourceRequirements) resource.Quantity) (sum resource.Quantity, found bool) {
	var most resource.Quantity
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		found = found || has(&c.Resources, name)
		if sidecar(c) {
			sum.Add(amount(&c.Resources))
			continue
		}
		before := sum.DeepCopy() // an amount of the pod's must not be added to: its copies share digits
		if before.Add(amount(&c.Resources)); before.Cmp(most) > 0 {
			most = before
		}
	}
	for i := range pod.Spec.Containers {
		r := &pod.Spec.Containers[i].Resources
		found = found || has(r, name)
		sum.Add(amount(r))
	}
	if most.Cmp(sum) > 0 {
		sum = most
	}
	return sum, found
}

// sidecar says that an init container runs on.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func classOf(r *corev1.ResourceRequirements) corev1.PodQOSClass {
	cpu, memory := classBy(r, corev1.ResourceCPU), classBy(r, corev1.ResourceMemory)
	if cpu != memory {
		return corev1.PodQOSBurstable
	}
	return cpu
}

func classBy(r *corev1.ResourceRequirements, name corev1.ResourceName) corev1.PodQOSClass {
	requested, limit := request(r, name), r.Limits[name]
	switch {
	case requested.Sign() <= 0 && limit.Sign() <= 0:
		return corev1.PodQOSBestEffort
	case requested.Cmp(limit) == 0:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}
