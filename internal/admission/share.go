package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// share returns the pod as a pod of no workload type. asks is true if the pod asks
// for a type; the caller warns about it.
func (s Settings) share(pod *corev1.Pod, asks bool) (*corev1.Pod, []Warning) {
	shared := draft(pod)
	s.strip(shared)
	var warnings []Warning
	warn := func(w Warning) {
		if !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}
	pools := s.pools()
	for _, c := range containers(shared) {
		if typ, released := s.giveBack(pod.Annotations, c); released && !asks {
			warn(Warning{Reason: CoresWithoutTarget, Subject: typ})
		}
		for _, p := range pools {
			if !p.on && has(&c.Resources, p.name) {
				warn(s.removed(string(p.name)))
			}
		}
		pools.remove(&c.Resources)
	}
	warnings = append(warnings, s.pool(shared)...)
	return shared, append(warnings, s.lost(pod, shared, pools, false)...)
}

// poolResources are the resources of the shared and the guaranteed pool.
type poolResources [2]struct {
	name corev1.ResourceName
	on   bool // its switch
}

func (s Settings) pools() poolResources {
	return poolResources{
		{corev1.ResourceName(s.Names.SharedResource()), s.SharedCPUs}, {corev1.ResourceName(s.Names.GuaranteedResource()), s.GuaranteedCPUs},
	}
}

// count reports whether a container is counted by one of the pools.
func (p poolResources) count(c *corev1.Container) bool {
	return has(&c.Resources, p[0].name) || p.countGuaranteed(c)
}

// countGuaranteed reports whether a container is counted by the guaranteed pool.
func (p poolResources) countGuaranteed(c *corev1.Container) bool { return has(&c.Resources, p[1].name) }

// remove removes the resources, because pool writes them again from the container's present requests.
func (p poolResources) remove(r *corev1.ResourceRequirements) {
	remove(r, p[0].name)
	remove(r, p[1].name)
}

// lost returns a warning for each resource of a pool that was removed from a container which no
// resource counts now. An author can write such a resource without the cpu request that it follows
// from. With spec.resources, another container can have it. Of pools that are off, it considers
// only pods of a workload type.
func (s Settings) lost(before, after *corev1.Pod, pools poolResources, typed bool) (warnings []Warning) {
	counted := func(c *corev1.Container) bool {
		_, is := s.countedAs(&c.Resources)
		return is || pools.count(c)
	}
	if !anyOf(before, pools.count) || resourcehelper.IsPodLevelResourcesSet(after) && anyOf(after, counted) {
		return nil
	}
	isOnClaims := s.OnClaims(after)
	for _, p := range pools {
		for i, c := range containers(after) {
			had := has(&containerAt(before, i).Resources, p.name)
			if (p.on || typed) && had && !counted(c) && !isOnClaims(c.Name) { // its request would count
				warnings = append(warnings, Warning{Reason: ResourceWithoutCPU, Subject: string(p.name)})
				break
			}
		}
	}
	return warnings
}

// giveBack removes a container's resources of workload types. They become its CPU
// request again if it has no other: without both the container would get almost no
// CPU. typ is the type of the largest resource.
func (s Settings) giveBack(annotations map[string]string, c *corev1.Container) (typ string, released bool) {
	milli, typ := s.release(&c.Resources)
	if milli == 0 || has(&c.Resources, corev1.ResourceCPU) {
		return typ, typ != ""
	}
	put(&c.Resources.Requests, corev1.ResourceCPU, *resource.NewMilliQuantity(milli, resource.DecimalSI))
	a, found, err := s.Names.ContainerResources(annotations, typ, c.Name)
	if found && err == nil && a.LimitMilli >= milli && a.LimitMilli < workload.MaxMilliCPU {
		put(&c.Resources.Limits, corev1.ResourceCPU, *resource.NewMilliQuantity(a.LimitMilli, resource.DecimalSI))
	}
	return typ, true
}
