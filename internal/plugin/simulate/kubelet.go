package simulate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// The kubelet's period of CFS quotas in microseconds, and the least quota (kubelet cm,
// QuotaPeriod and MinQuotaPeriod).
const (
	quotaPeriod = 100_000
	leastQuota  = 1000
)

// resourcesOf are amounts as a kubelet gives them to a runtime (kubelet cm, MilliCPUToShares
// and MilliCPUToQuota).
func resourcesOf(a admission.Amounts) pools.Resources {
	r := pools.Resources{Shares: workload.MilliCPUToShares(a.Request)}
	if a.Limit > 0 {
		r.Quota, r.Period = max(a.Limit*quotaPeriod/1000, leastQuota), quotaPeriod
	}
	return r
}

// pauseName is the name of the pause container of a pod, as on a node.
const pauseName = "POD"

type running struct {
	spec     *corev1.Pod // as it is now; replaced, not changed
	defaults admission.Defaults
	asked    admission.Asked
	pod      pools.Pod
	uses     []claims.Use // its claims, in the order of spec.resourceClaims
	// changed is when a container of it was made last, in the trace's time.
	changed int64
}

// begin makes the sandbox of a pod, with its pause container. The API server has set
// defaults of spec.resources, but not before a kubelet 1.37 reads a static pod.
func begin(p *Pod, defaults admission.Defaults, at int64) *running {
	if defaults == admission.DefaultLimits && p.Spec.Annotations[mirrorKey] != "" {
		defaults = admission.DefaultNothing
	}
	asked := admission.AskedBy(p.Spec, defaults)
	return &running{spec: p.Spec, defaults: defaults, asked: asked, pod: pools.Pod{
		UID: p.UID, Namespace: p.Spec.Namespace, Name: p.Spec.Name, QoS: pools.QoS(asked.Class),
		Annotations: p.Spec.Annotations, CreatedAt: at, Resources: resourcesOf(asked.Pod),
		Containers: []pools.Container{{ID: p.Name(), Name: pauseName, Kind: pools.Infra, State: pools.Running, CreatedAt: at}},
	}}
}

func (r *running) name() string { return r.pod.Namespace + "/" + r.pod.Name }

// resize gives a container another amount of CPU, as the kubelet does in place. Without a
// container it gives it to the pod itself (spec.resources). The amount is the request, and
// also the limit if there is one.
func (r *running) resize(container string, cpu resource.Quantity) error {
	spec := r.spec.DeepCopy()
	at := spec.Spec.Resources
	if container != "" {
		at = resourcesIn(spec, container)
	}
	switch {
	case at == nil && container == "":
		return fmt.Errorf("pod %s has no spec.resources; name one of its containers", r.name())
	case at == nil:
		return fmt.Errorf("pod %s has no container %q", r.name(), container)
	}
	if at.Requests == nil {
		at.Requests = corev1.ResourceList{}
	}
	at.Requests[corev1.ResourceCPU] = cpu
	if _, limited := at.Limits[corev1.ResourceCPU]; limited {
		at.Limits[corev1.ResourceCPU] = cpu
	}
	asked := admission.AskedBy(spec, r.defaults)
	if asked.Class != r.asked.Class {
		return fmt.Errorf("pod %s would become %s; a resize does not change the class, which is %s", r.name(), asked.Class, r.asked.Class)
	}
	r.spec, r.asked, r.pod.Resources = spec, asked, resourcesOf(asked.Pod)
	for i := range asked.Containers {
		for j := range r.pod.Containers {
			if c := &r.pod.Containers[j]; c.Kind == pools.App && c.Name == asked.Containers[i].Name {
				c.Resources = resourcesOf(asked.Containers[i].Amounts)
			}
		}
	}
	return nil
}

// resourcesIn returns the resources of a container of a pod, or nil if there is no such
// container.
func resourcesIn(pod *corev1.Pod, container string) *corev1.ResourceRequirements {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == container {
				return &list[i].Resources
			}
		}
	}
	return nil
}
