package admission

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// share returns the pod as one of no workload type. asks says that it wanted to be
// of one, of which the caller warns.
func (s Settings) share(pod *corev1.Pod, asks bool) (*corev1.Pod, []Warning) {
	shared := draft(pod)
	s.strip(shared)
	var warnings []Warning
	warn := func(w Warning) {
		if !slices.Contains(warnings, w) {
			warnings = append(warnings, w)
		}
	}
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
	}
	warnings = append(warnings, s.pool(shared)...)
	return shared, append(warnings, s.lost(pod, shared)...)
}

// lost returns a warning for each resource of a pool that a container of before has, if the
// container is counted by no resource in after. An author can write such a resource without the
// cpu request that it follows from. With spec.resources, another container can have it. Of a
// resource that is off, [Settings.share] warns.
func (s Settings) lost(before, after *corev1.Pod) (warnings []Warning) {
	counted := func(c *corev1.Container) bool {
		for name := range c.Resources.Requests {
			_, cores := s.Names.CoresType(string(name))
			if cores || string(name) == s.Names.SharedResource() || string(name) == s.Names.GuaranteedResource() {
				return true
			}
		}
		return false
	}
	others := false
	var uncounted []bool
	for c := range containers(after) {
		uncounted = append(uncounted, !counted(c))
		others = others || counted(c)
	}
	if others && podLevel(before) {
		return nil
	}
	for _, pool := range []struct {
		name string
		on   bool
	}{{s.Names.SharedResource(), s.SharedCPUs}, {s.Names.GuaranteedResource(), s.GuaranteedCPUs}} {
		i, lost := 0, false
		for c := range containers(before) {
			lost = lost || uncounted[i] && has(&c.Resources, corev1.ResourceName(pool.name))
			i++
		}
		if lost && pool.on {
			warnings = append(warnings, Warning{Reason: ResourceWithoutCPU, Subject: pool.name})
		}
	}
	return warnings
}

// giveBack removes a container's resources of workload types, and makes them the
// CPU request that they once were where there is none: without either the container
// would get next to no CPU. typ is the type of the largest one.
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

// unpool removes the resources of the shared and the guaranteed pool: pool writes
// them anew, for what the container asks for now.
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
