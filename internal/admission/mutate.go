package admission

import (
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/nodekind"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Mutate returns the pod to create, and a warning for each request that it does not
// grant. The result shares unchanged fields with pod; pod itself is not changed.
// The error is a [*Refusal].
//
// Mutate returns mirror pods of static pods unchanged. In all other pods it decides
// the annotations that ask for a workload type or give containers resources, and the
// extended resources of pools. The exceptions read the namespace of the pod.
func (s Settings) Mutate(pod *corev1.Pod, from Origin) (*corev1.Pod, []Warning, error) {
	if from.mirrors(pod) {
		return pod, nil, nil
	}
	typ, asks, err := s.Names.TargetType(pod.Annotations)
	if err != nil {
		return nil, nil, &Refusal{Message: err.Error()}
	}
	if nodekind.Excludes(pod, s.WithoutDaemon) {
		s.SharedCPUs, s.GuaranteedCPUs, s.outside = false, false, true
	}
	if s.Excepts(pod) {
		s.SharedCPUs, s.GuaranteedCPUs, s.excepted = false, false, true
	}
	if s.SharedCPUs || s.GuaranteedCPUs || asks && s.Types[typ] {
		// A very high limit means no limit, and does not count.
		if err := checkCPU(pod, cpuset.MaxCPUs, math.MaxInt64); err != nil {
			return nil, nil, &Refusal{Message: err.Error()}
		}
	}
	ignored := s.ignored(pod.Annotations, typ)
	var warnings []Warning
	if asks {
		managed, why, err := s.manage(pod, typ, from)
		if err != nil {
			return nil, nil, err
		}
		if managed != nil {
			// The annotation that asks stays, so that a second call finds the other reasons again.
			warnings = append(ignored, s.lost(pod, managed, s.pools(), true)...)
			s.warn(managed, pod.Annotations, []Reason{AnnotationIgnored, ResourceWithoutCPU}, warnings)
			s.tolerate(managed, from)
			return managed, warnings, nil
		}
		warnings = append(warnings, s.warning(why, typ))
	}
	result, more := s.share(pod, asks)
	s.freeLauncher(result)
	warnings = slices.Concat(warnings, ignored, more)
	kept := Reasons()
	if asks {
		kept = nil // this is the first call: the text is the author's
	}
	s.warn(result, pod.Annotations, kept, warnings)
	if RequestsCPU(result) {
		s.tolerate(result, from)
	}
	return result, warnings, nil
}

// Manages reports whether Mutate makes a pod one of a workload type.
func (s Settings) Manages(pod *corev1.Pod, from Origin) bool {
	mutated, _, err := s.Mutate(pod, from)
	if err != nil {
		return false
	}
	_, stays, err := s.Names.TargetType(mutated.Annotations) // removed from all other pods
	return err == nil && stays
}

// ignored returns a warning if the pod has annotations in the old form that no node reads, a
// cpuset above all. The warning names the first one: a pod can have thousands, and the API
// server bounds the sum of all annotations. Annotations in the new form are replaced without
// a warning, as by OpenShift.
func (s Settings) ignored(annotations map[string]string, typ string) []Warning {
	bad := s.Names.CheckOldForm(annotations, typ)
	if len(bad) == 0 {
		return nil
	}
	return []Warning{{Reason: AnnotationIgnored, Subject: bad[0].Key}}
}

// warn replaces the pod's annotation of warnings. The earlier text may be from the first call
// of the API server, a moment ago. Its annotations are gone then, and a second call does not
// find the warnings again. The text stays if each of its lines has one of the kept reasons.
func (s Settings) warn(pod *corev1.Pod, before map[string]string, kept []Reason, warnings []Warning) {
	key := s.Names.WarningKey()
	earlier := before[key]
	if !consists(earlier, kept) {
		earlier = ""
	}
	delete(pod.Annotations, key)
	if text := join(earlier, warnings); text != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, text)
	}
}

// strip removes what only this package may write.
func (s Settings) strip(pod *corev1.Pod) {
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return s.Names.Requests(key) })
}

// forbidden refuses a workload type that the namespace does not list.
func (s Settings) forbidden(typ string) error {
	return &Refusal{
		Forbidden: true,
		Message: "the pod's namespace does not allow workload type " + strconv.Quote(typ) + "; add it to the namespace's annotation " +
			s.Names.AllowedKey() + ", or remove the pod's annotation " + s.Names.TargetKey("<type>"),
	}
}
