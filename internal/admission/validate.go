package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Validate returns a [*Refusal] for each part that a pod may not have when it is
// stored. It is for pods that all webhooks have changed. A result of
// [Settings.Mutate] passes.
//
// Validate ignores switches: after a workload type is switched off, its pods
// stay valid.
func (s Settings) Validate(pod *corev1.Pod, from Origin) []error {
	if from.mirrors(pod) {
		return nil
	}
	typ, asks, err := s.Names.Target(pod.Annotations)
	if err != nil {
		return []error{&Refusal{Message: err.Error()}}
	}
	errs := s.checkResources(pod, typ, asks)
	if !asks {
		return append(errs, s.checkCores(pod)...)
	}
	if allowed, _ := s.Names.Allowed(from.Namespace, typ); !allowed && !from.Manifest {
		errs = append(errs, s.forbidden(typ))
	}
	return errs
}

// checkResources checks the annotations that give containers resources.
func (s Settings) checkResources(pod *corev1.Pod, typ string, asks bool) []error {
	var errs []error
	for _, err := range s.Names.CheckOldForm(pod.Annotations, typ) {
		errs = append(errs, &Refusal{Message: err.Error()})
	}
	for _, container := range s.Names.AnnotatedContainers(pod.Annotations, "") {
		if !asks {
			errs = append(errs, &Refusal{Message: fmt.Sprintf(
				"an annotation gives container %s resources, but no annotation asks for a workload type; remove it, or add %s",
				strconv.Quote(container), s.Names.TargetKey("<type>"))})
			continue
		}
		if _, _, err := s.Names.ContainerResources(pod.Annotations, typ, container); err != nil {
			errs = append(errs, &Refusal{Message: err.Error()})
		}
	}
	return errs
}

// checkCores refuses requests for a workload type's resource by a pod of no type.
// It would be counted there and run elsewhere.
func (s Settings) checkCores(pod *corev1.Pod) []error {
	var errs []error
	for _, c := range containers(pod) {
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Requests)) {
			if typ, ok := s.Names.CoresType(string(name)); ok {
				errs = append(errs, &Refusal{Message: fmt.Sprintf(
					"container %s requests %s, but the pod is of no workload type; request cpu instead, or add the annotation %s",
					strconv.Quote(c.Name), name, s.Names.TargetKey(typ))})
			}
		}
	}
	return errs
}
