package admission

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// PodLevel states which CPUs the containers of a Guaranteed pod with spec.resources get, as
// guaranteed.podLevel does in the daemon's configuration. The zero value is PodLevelPod.
type PodLevel string

const (
	// PodLevelPod gives the pod as many exclusive CPUs as spec.resources requests.
	// Containers that request whole CPUs get theirs of these, and all others run on the rest.
	PodLevelPod PodLevel = "pod"
	// PodLevelContainer gives exclusive CPUs to containers that request whole CPUs. All
	// others run in the shared pool.
	PodLevelContainer PodLevel = "container"
)

// Valid reports whether a value is one of the two.
func (l PodLevel) Valid() bool { return l == PodLevelPod || l == PodLevelContainer }

// podLevelKey is the annotation by which a pod chooses. Package pools reads it on the node;
// this package must not import it.
const podLevelKey = "cpupoold.io/pod-level"

// podLevelOf returns the value for a pod. If its annotation is invalid or not allowed, the
// node reports a problem and uses the configured value.
func (s Settings) podLevelOf(pod *corev1.Pod) PodLevel {
	if chosen := PodLevel(pod.Annotations[podLevelKey]); s.PodLevelOverride && chosen.Valid() {
		return chosen
	}
	return s.PodLevel
}

// total is the CPU of a pod with spec.resources.
type total struct {
	// milli and limit are the pod's own, in thousandths of a CPU.
	milli, limit int64
	// guaranteed is true in QoS class Guaranteed.
	guaranteed bool
	// recognised is true if the node sees from shares and quotas of the containers that the
	// pod has spec.resources (package pools has the rule). The node places any other pod by
	// the requests of its containers, and reserves the CPUs of milli that they leave.
	recognised bool
	// pooled is true if the pod is recognised, and has milli as exclusive CPUs.
	pooled bool
	// claimed are its claims with CPUs. The node places the other containers as in a pod without these.
	claimed claimed
}

// totalOf returns the CPU of a pod. Only guaranteed is set if the pod has no spec.resources.
func (s Settings) totalOf(pod *corev1.Pod) total {
	t := total{guaranteed: s.Defaults.class(pod) == corev1.PodQOSGuaranteed, claimed: s.claimed(pod)}
	if !resourcehelper.IsPodLevelResourcesSet(pod) {
		return t
	}
	own := s.Defaults.own(pod)
	t.milli, t.limit = milliCPU(own.Requests[corev1.ResourceCPU]), milliCPU(own.Limits[corev1.ResourceCPU])
	full, others := 0, 0
	for c := range Running(pod) {
		if t.claimed.containers[c.Name] {
			continue
		}
		a := t.amountsOf(c)
		switch shares := workload.MilliCPUToShares(a.Request); {
		case shares >= workload.MilliCPUToShares(t.milli):
			full++
		case shares > workload.MilliCPUToShares(0):
			others++
		}
		t.recognised = t.recognised || differ(a)
	}
	t.recognised = t.guaranteed && (t.recognised || full > 1 || full == 1 && others > 0)
	t.pooled = t.recognised && t.milli%1000 == 0 && s.podLevelOf(pod) != PodLevelContainer
	return t
}

// amountsOf returns the CPU of a container as a kubelet passes it to the runtime. The pod's
// limit replaces a missing limit. The limit replaces a missing request. The source is
// kubernetes 1.37.0, pkg/kubelet/kuberuntime, functions getCPULimit and
// generateLinuxContainerResources.
func (t total) amountsOf(c *corev1.Container) Amounts {
	a := Amounts{Limit: cmp.Or(milliCPU(c.Resources.Limits[corev1.ResourceCPU]), t.limit)}
	a.Request = a.Limit
	if q, requested := c.Resources.Requests[corev1.ResourceCPU]; requested {
		a.Request = milliCPU(q)
	}
	return a
}

// differ reports whether a node sees from shares and quota that request and limit differ.
// A limit of 10m and less has the least quota.
func differ(a Amounts) bool {
	return a.Limit > 10 && workload.MilliCPUToShares(a.Limit) != workload.MilliCPUToShares(a.Request)
}

// requestOf returns the CPU request that a node sees of a container, in thousandths. In a pod
// that the node does not recognise, only a container alone can have the pod's.
func (t total) requestOf(c *corev1.Container) int64 {
	if t.guaranteed && !t.recognised {
		return t.amountsOf(c).Request
	}
	return requestOf(c)
}

// whole returns the request of a container that gets exclusive CPUs for itself, else 0: whole
// CPUs, which are its limit too. A container that has all of a recognised pod is like one
// without a request, so it shares. A container on CPUs of claims gets no others.
func (t total) whole(c *corev1.Container) int64 {
	milli := t.requestOf(c)
	if t.claimed.containers[c.Name] || !whole(t.guaranteed, milli) || milli != t.amountsOf(c).Limit || t.recognised && milli >= t.milli {
		return 0
	}
	return milli
}

// pool adds to each container the resource of the pool that its CPU comes from. A container on CPUs
// of claims gets none. The first of the others gets the rest of spec.resources, which no container
// requests. With claims, the rest can be the amount of the claims. Then it counts only if the node
// gives it to the pod, or if a container without a request runs on it. pool returns a warning if containers with whole CPUs leave none to another container,
// and for claims that are not clear.
func (s Settings) pool(pod *corev1.Pod) []Warning {
	if !s.SharedCPUs && !s.GuaranteedCPUs {
		return nil
	}
	t := s.totalOf(pod)
	add := func(c *corev1.Container) (whole, milli int64) {
		whole, milli = t.whole(c), t.requestOf(c)
		if t.pooled { // other requests are part of the rest
			milli = whole
		}
		if !t.claimed.containers[c.Name] {
			s.count(c, whole > 0, milli)
		}
		return whole, milli
	}
	for i, c := range containers(pod) {
		if isInit(pod, i, c) {
			add(c)
		}
	}
	rest, exclusive, sharer := t.milli, int64(0), ""
	isRestUsed := t.pooled || !t.claimed.any
	for c := range Running(pod) {
		whole, milli := add(c)
		rest, exclusive = rest-milli, exclusive+whole
		if t.claimed.containers[c.Name] {
			continue
		}
		if whole == 0 && sharer == "" {
			sharer = c.Name
		}
		isRestUsed = isRestUsed || milli == 0
	}
	if c := t.first(pod); c != nil && isRestUsed { // only containers can request an extended resource
		s.count(c, t.pooled || t.guaranteed && !t.recognised && rest >= 1000 && !t.claimed.any, rest)
	}
	warnings := t.claimed.warnings
	if t.pooled && s.GuaranteedCPUs && exclusive >= t.milli && sharer != "" {
		warnings = append(slices.Clip(warnings), Warning{Reason: PodPoolEmpty, Subject: sharer})
	}
	return warnings
}

// first returns the first container that does not run on CPUs of claims, else such a sidecar, or nil.
func (t total) first(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; !t.claimed.containers[c.Name] {
			return c
		}
	}
	for c := range Running(pod) {
		if len(pod.Spec.Containers) > 0 && !t.claimed.containers[c.Name] {
			return c
		}
	}
	return nil
}

// count adds thousandths of a CPU to a container's resource of the guaranteed or the shared
// pool. Exclusive CPUs are taken from the shared pool if the guaranteed resource is off.
func (s Settings) count(c *corev1.Container, guaranteed bool, milli int64) {
	name := s.Names.SharedResource()
	switch {
	case milli <= 0:
		return
	case guaranteed && s.GuaranteedCPUs:
		name = s.Names.GuaranteedResource()
	case !s.SharedCPUs:
		return
	}
	had := count(c.Resources.Requests[corev1.ResourceName(name)])
	set(&c.Resources, name, min(had+milli, workload.MaxMilliCPU))
}
