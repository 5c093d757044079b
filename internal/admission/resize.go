package admission

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Resize returns what must not become of a running pod's resources, as one [*Refusal]
// each. Extended resources cannot be resized, so a container stays counted for what it
// had. That is refused where it decides about CPUs: whether the container has some of
// its own, how many, and anything in a pod of a workload type, whose containers stay on
// the type's CPUs and would be counted by cpu. A container that only shares may grow;
// nodes advertise less then.
//
// Containers that are counted in no pool may be resized as on any cluster.
func (s Settings) Resize(before, after *corev1.Pod) []error {
	var errs []error
	old := map[string]*corev1.Container{}
	for c := range containers(before) {
		old[c.Name] = c
	}
	typ, typed, _ := s.Names.TargetType(before.Annotations) // a pod whose wish was not honoured has lost it
	ownBefore, ownAfter := class(before) == corev1.PodQOSGuaranteed, class(after) == corev1.PodQOSGuaranteed
	for c := range containers(after) {
		was, known := old[c.Name]
		if !known {
			continue // a resize adds no containers
		}
		from, to := milliCPU(request(&was.Resources, corev1.ResourceCPU)), milliCPU(request(&c.Resources, corev1.ResourceCPU))
		if from == to {
			continue
		}
		of, counted := s.countedAs(&was.Resources)
		if typed && !counted {
			of = typ
		}
		if typed || counted {
			errs = append(errs, &Refusal{Forbidden: true, Message: fmt.Sprintf(
				"container %s is counted by workload type %s, and its CPU request cannot be resized; make the pod anew",
				strconv.Quote(c.Name), strconv.Quote(of))})
			continue
		}
		if !has(&was.Resources, corev1.ResourceName(s.Names.SharedResource())) && !has(&was.Resources, corev1.ResourceName(s.Names.GuaranteedResource())) {
			continue
		}
		if whole(ownBefore, from) || whole(ownAfter, to) {
			errs = append(errs, &Refusal{Forbidden: true, Message: fmt.Sprintf(
				"container %s cannot be resized from %s to %s: its whole CPUs are counted by an extended resource, which cannot be resized; make the pod anew",
				strconv.Quote(c.Name), cpus(from), cpus(to))})
		}
	}
	return errs
}

// countedAs returns the workload type that a container is counted by.
func (s Settings) countedAs(r *corev1.ResourceRequirements) (typ string, counted bool) {
	for name := range r.Requests {
		if t, ok := s.Names.CoresType(string(name)); ok && t >= typ {
			typ, counted = t, true
		}
	}
	return typ, counted
}

// whole says that a container gets CPUs of its own.
func whole(guaranteed bool, milli int64) bool { return guaranteed && milli > 0 && milli%1000 == 0 }

func cpus(milli int64) string {
	if milli%1000 == 0 {
		return strconv.FormatInt(milli/1000, 10) + " CPUs"
	}
	return strconv.FormatInt(milli, 10) + "m CPU"
}
