package admission

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Asked is what a pod asks of a node's CPUs, as a kubelet finds it.
type Asked struct {
	Class corev1.PodQOSClass
	// Pod is the most that the pod needs at one time (KEP-753), or what it asks for as a
	// whole.
	Pod Amounts
	// Containers are init containers, sidecars among them, and then the pod's own, in
	// the order in which they are started.
	Containers []AskedContainer
}

// Amounts are thousandths of a CPU, 0..workload.MaxMilliCPU; a limit of 0 is none.
type Amounts struct{ Request, Limit int64 }

// AskedContainer is what one container asks for.
type AskedContainer struct {
	Name string
	// Init says that it ends before the next is started; a sidecar is none.
	Init bool
	Amounts
}

// AskedBy returns what a pod asks for.
func AskedBy(pod *corev1.Pod) Asked {
	a := Asked{Class: class(pod)}
	add := func(c *corev1.Container, init bool) {
		a.Containers = append(a.Containers, AskedContainer{Name: c.Name, Init: init, Amounts: amountsOf(&c.Resources)})
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		add(c, !sidecar(c))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], false)
	}
	requests, _ := together(pod, corev1.ResourceCPU)
	limits, _ := peak(pod, corev1.ResourceCPU, func(r *corev1.ResourceRequirements) resource.Quantity { return r.Limits[corev1.ResourceCPU] })
	a.Pod = Amounts{milliCPU(requests), milliCPU(limits)}
	if !podLevel(pod) {
		return a
	}
	own := withRequests(pod)
	if q, ok := own.Limits[corev1.ResourceCPU]; ok {
		a.Pod.Limit = milliCPU(q)
	}
	if has(own, corev1.ResourceCPU) {
		a.Pod.Request = milliCPU(request(own, corev1.ResourceCPU))
	}
	return a
}

func amountsOf(r *corev1.ResourceRequirements) Amounts {
	return Amounts{milliCPU(request(r, corev1.ResourceCPU)), milliCPU(r.Limits[corev1.ResourceCPU])}
}
