package admission

import (
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Mutate returns the pod as it is to be made, and what it does not get of what it
// asks for. The result shares with pod what is the same; pod itself is not changed.
// The error is a [*Refusal].
//
// The copies of static pods that a node shows are returned as they are. Of all
// other pods, the annotations that ask for a workload type or give containers
// resources, and the extended resources of pools, are what this function writes.
func (s Settings) Mutate(pod *corev1.Pod, from Origin) (*corev1.Pod, []Warning, error) {
	if from.mirrors(pod) {
		return pod, nil, nil
	}
	typ, asks, err := s.Names.TargetType(pod.Annotations)
	if err != nil {
		return nil, nil, &Refusal{Message: err.Error()}
	}
	var warnings []Warning
	if asks {
		managed, why, err := s.manage(pod, typ, from)
		if err != nil {
			return nil, nil, err
		}
		if managed != nil {
			s.tolerate(managed, from)
			return managed, nil, nil
		}
		warnings = append(warnings, s.warning(why, typ))
	}
	result, more := s.share(pod, asks)
	warnings = append(warnings, more...)
	s.warn(result, asks, warnings)
	if RequestsCPU(result) {
		s.tolerate(result, from)
	}
	return result, warnings, nil
}

// warn replaces the pod's annotation of warnings. What is there may be from a
// moment ago, when the API server asked for the first time: then the annotation
// that asked for a type is gone, and with it what could be warned of again.
func (s Settings) warn(pod *corev1.Pod, asks bool, warnings []Warning) {
	key := s.Names.WarningKey()
	earlier := pod.Annotations[key]
	if asks || !ours(earlier) {
		earlier = ""
	}
	delete(pod.Annotations, key)
	if text := join(earlier, warnings); text != "" {
		annotate(pod, key, text)
	}
}

// strip removes what only this package may write.
func (s Settings) strip(pod *corev1.Pod) {
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return s.Names.Claims(key) })
}

func annotate(pod *corev1.Pod, key, value string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
}

// forbidden refuses a workload type that the namespace does not list.
func (s Settings) forbidden(typ string) error {
	return &Refusal{
		Forbidden: true,
		Message: "the pod's namespace does not allow workload type " + strconv.Quote(typ) + "; add it to the namespace's annotation " +
			s.Names.AllowedKey() + ", or remove the pod's annotation " + s.Names.TargetKey("<type>"),
	}
}
