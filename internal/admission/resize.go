package admission

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Resize returns one [*Refusal] for each change of a running pod's resources that it must
// not have. Extended resources cannot be resized, so the scheduler counts the earlier
// amounts. Resize refuses changes that decide about exclusive CPUs:
//
//   - another CPU request in spec.resources of a pod that is counted for exclusive CPUs
//   - a container that gets or loses whole CPUs, or has another number of them. Where all
//     CPUs of spec.resources are exclusive, the number may change
//   - limits that turn containers of the shared pool into sharers of the pod, or back
//   - any CPU request in a pod of a workload type: its containers stay on the type's CPUs, and
//     the scheduler would count them by cpu
//
// A container that only shares may grow; nodes advertise less then. Containers that are
// counted in no pool may be resized as on any cluster.
func (s Settings) Resize(before, after *corev1.Pod) []error {
	was, is := s.totalOf(before), s.totalOf(after)
	typ, typed, _ := s.Names.TargetType(before.Annotations) // without its type, the pod has lost the annotation
	pools := s.pools()
	inPool := anyOf(before, pools.count)
	var errs []error
	if err := s.resizeTotal(before, after, inPool && (whole(was.guaranteed, was.milli) || whole(is.guaranteed, is.milli))); err != nil {
		errs = append(errs, err)
	}
	old := map[string]*corev1.Container{}
	for _, c := range containers(before) {
		old[c.Name] = c
	}
	for _, c := range containers(after) {
		earlier, known := old[c.Name]
		if !known {
			continue // a resize adds no containers
		}
		of, counted := s.countedAs(&earlier.Resources)
		if !counted && typed {
			of, counted = typ, true
		}
		if counted && requestOf(earlier) != requestOf(c) {
			errs = append(errs, forbid("container %s is counted by workload type %s, and its CPU request cannot be resized; create the pod again",
				strconv.Quote(c.Name), strconv.Quote(of)))
		}
		if counted || !inPool {
			continue
		}
		if (total{}).amountsOf(earlier) == (total{}).amountsOf(c) {
			continue
		}
		from, to := was.whole(earlier), is.whole(c)
		if from == to || was.pooled && is.pooled && from > 0 && to > 0 {
			continue
		}
		errs = append(errs, resizedWhole(earlier, c))
	}
	if from, to := s.exclusive(before), s.exclusive(after); len(errs) == 0 && inPool && was.recognised != is.recognised && from != to {
		errs = append(errs, forbid("the pod cannot be resized: the node would give it %s instead of %s, "+
			"which are counted by an extended resource, which cannot be resized; create the pod again", cpus(to), cpus(from)))
	}
	return errs
}

// exclusive returns the CPUs, in thousandths, that a pod is counted for in the guaranteed
// pool while its own containers run.
func (s Settings) exclusive(pod *corev1.Pod) (milli int64) {
	s.SharedCPUs, s.GuaranteedCPUs = false, true
	counted, pools := draft(pod), s.pools()
	for _, c := range containers(counted) {
		pools.remove(&c.Resources)
	}
	s.pool(counted)
	for c := range Running(counted) {
		milli += count(c.Resources.Requests[pools[1].name])
	}
	return milli
}

// resizeTotal returns the refusal of another CPU request in spec.resources, or nil. With
// exclusive, the pod has exclusive CPUs before or afterwards.
func (s Settings) resizeTotal(before, after *corev1.Pod, exclusive bool) error {
	if !resourcehelper.IsPodLevelResourcesSet(before) && !resourcehelper.IsPodLevelResourcesSet(after) {
		return nil
	}
	from, to := AskedBy(before, s.Defaults).Pod.Request, AskedBy(after, s.Defaults).Pod.Request
	if from == to {
		return nil
	}
	if typ, typed, _ := s.Names.TargetType(before.Annotations); typed {
		return forbid("the pod is counted by workload type %s, and the CPU request in spec.resources cannot be resized from %s to %s; create the pod again",
			strconv.Quote(typ), cpus(from), cpus(to))
	}
	if !exclusive && !anyOf(before, s.pools().countGuaranteed) {
		return nil
	}
	return forbid("the CPU request in spec.resources cannot be resized from %s to %s: "+
		"the pod's whole CPUs are counted by an extended resource, which cannot be resized; create the pod again", cpus(from), cpus(to))
}

// resizedWhole returns the refusal of a container that had whole CPUs, or would have them.
func resizedWhole(before, after *corev1.Container) error {
	of, from, to := "", requestOf(before), requestOf(after)
	if from == to {
		of, from, to = "the CPU limit of ", milliCPU(before.Resources.Limits[corev1.ResourceCPU]), milliCPU(after.Resources.Limits[corev1.ResourceCPU])
	}
	return forbid("%scontainer %s cannot be resized from %s to %s: its whole CPUs are counted by an extended resource, which cannot be resized; create the pod again",
		of, strconv.Quote(after.Name), cpus(from), cpus(to))
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

func forbid(format string, args ...any) error {
	return &Refusal{Forbidden: true, Message: fmt.Sprintf(format, args...)}
}

// requestOf returns the CPU request of a container, in thousandths.
func requestOf(c *corev1.Container) int64 { return milliCPU(request(&c.Resources, corev1.ResourceCPU)) }

// whole reports whether a request of a container or a pod is for exclusive CPUs.
func whole(guaranteed bool, milli int64) bool { return guaranteed && milli > 0 && milli%1000 == 0 }

func cpus(milli int64) string {
	if milli%1000 == 0 {
		return strconv.FormatInt(milli/1000, 10) + " CPUs"
	}
	return strconv.FormatInt(milli, 10) + "m CPU"
}
