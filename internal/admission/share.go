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
	var had removed
	i := 0
	for c := range containers(shared) {
		if typ, released := s.giveBack(pod.Annotations, c); released && !asks {
			warn(Warning{Reason: CoresWithoutTarget, Subject: typ})
		}
		removedShared, removedGuaranteed := s.unpool(&c.Resources)
		if removedShared && !s.SharedCPUs {
			warn(s.removed(s.Names.SharedResource()))
		}
		if removedGuaranteed && !s.GuaranteedCPUs {
			warn(s.removed(s.Names.GuaranteedResource()))
		}
		had = had.with(pod, i, removedShared && s.SharedCPUs, removedGuaranteed && s.GuaranteedCPUs)
		i++
	}
	warnings = append(warnings, s.pool(shared)...)
	if had != nil {
		warnings = append(warnings, s.lost(shared, had)...)
	}
	return shared, warnings
}

// removed are the containers of a pod, by place, that had the resource of a pool.
type removed []struct{ shared, guaranteed bool }

// with returns the containers with the one at a place. It is nil as long as no container of the
// pod had a resource.
func (had removed) with(pod *corev1.Pod, at int, shared, guaranteed bool) removed {
	if !shared && !guaranteed {
		return had
	}
	if had == nil {
		had = make(removed, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	}
	had[at].shared, had[at].guaranteed = shared, guaranteed
	return had
}

// lost returns a warning for each resource of a pool that was removed from a container which no
// resource counts now. An author can write such a resource without the cpu request that it follows
// from. With spec.resources, another container can have it.
func (s Settings) lost(pod *corev1.Pod, had removed) (warnings []Warning) {
	shared, guaranteed := s.Names.SharedResource(), s.Names.GuaranteedResource()
	counted := func(c *corev1.Container) bool {
		for name := range c.Resources.Requests {
			_, cores := s.Names.CoresType(string(name))
			if cores || string(name) == shared || string(name) == guaranteed {
				return true
			}
		}
		return false
	}
	i, others, lostShared, lostGuaranteed := 0, false, false, false
	isOnClaims := s.OnClaims(pod)
	for c := range containers(pod) {
		switch {
		case counted(c):
			others = true
		case !isOnClaims(c.Name): // its request would count
			lostShared, lostGuaranteed = lostShared || had[i].shared, lostGuaranteed || had[i].guaranteed
		}
		i++
	}
	if others && resourcehelper.IsPodLevelResourcesSet(pod) {
		return nil
	}
	if lostShared {
		warnings = append(warnings, Warning{Reason: ResourceWithoutCPU, Subject: shared})
	}
	if lostGuaranteed {
		warnings = append(warnings, Warning{Reason: ResourceWithoutCPU, Subject: guaranteed})
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

// unpool removes the resources of the shared and the guaranteed pool, because pool
// writes them again from the container's present requests.
func (s Settings) unpool(r *corev1.ResourceRequirements) (shared, guaranteed bool) {
	for _, pool := range []struct {
		name corev1.ResourceName
		had  *bool
	}{
		{corev1.ResourceName(s.Names.SharedResource()), &shared},
		{corev1.ResourceName(s.Names.GuaranteedResource()), &guaranteed},
	} {
		*pool.had = has(r, pool.name)
		remove(r, pool.name)
	}
	return shared, guaranteed
}
