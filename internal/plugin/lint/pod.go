package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func (l *linter) checkPod() {
	names, pod := l.Admission.Names, l.object.Pod
	l.checkPlace()
	verdicts := l.verdicts(pod)
	if l.object.PodPath != "" {
		l.checkLabels(l.object.Labels, l.object.Line)
	}
	if !slices.ContainsFunc(verdicts, func(v verdict.Verdict) bool { return v.Field == "labels" }) {
		l.checkLabels(pod.Labels, l.object.PodLine)
	}
	l.checkContainerNames()
	for _, err := range l.Admission.Validate(pod, admission.Origin{Manifest: true}) {
		l.findText(l.lineOf(err.Error()), err.Error())
	}
	_, asks, err := names.Target(pod.Annotations)
	switch {
	case err != nil: // Validate returns it, too
	case asks:
		l.checkAsking(verdicts)
	default:
		l.checkNotAsking(verdicts)
	}
	l.checkKeys(verdicts)
}

// checkPlace finds annotations for pods on the workload that makes them.
func (l *linter) checkPlace() {
	if l.object.PodPath == "" {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(l.object.Annotations)) {
		if !l.Admission.Names.Requests(key) {
			continue
		}
		remedy := "move it to " + l.object.PodPath + "metadata.annotations"
		if len(l.Admission.Names.CheckOldForm(map[string]string{key: ""}, "")) > 0 {
			remedy = "remove it; pods with it are wrong, too"
		}
		l.find(l.object.Line("metadata", "annotations", key),
			fmt.Sprintf("annotation %s is on the %s, and its pods do not get it", key, l.object.Kind), remedy)
	}
}

// checkLabels finds labels that are meant as annotations: nothing reads them.
func (l *linter) checkLabels(labels map[string]string, line func(path ...string) int) {
	names := l.Admission.Names
	domain := strings.TrimSuffix(names.AllowedKey(), "/allowed")
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if names.Requests(key) || key == names.AllowedKey() || key == "allowed."+domain {
			l.find(line("metadata", "labels", key), fmt.Sprintf("label %s has no effect", key), "write it as an annotation")
		}
	}
}

// checkContainerNames finds annotations for containers that do not exist.
func (l *linter) checkContainerNames() {
	names, pod := l.Admission.Names, l.object.Pod
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for _, container := range names.AnnotatedContainers(pod.Annotations, "") {
		if !slices.ContainsFunc(all, func(c corev1.Container) bool { return c.Name == container }) {
			l.find(l.lineOf("/"+container),
				fmt.Sprintf("an annotation gives container %s resources, and there is no such container", strconv.Quote(container)),
				"remove it; the webhook writes these annotations")
		}
	}
}

// checkAsking checks a pod that asks for a workload type in the right words.
func (l *linter) checkAsking(verdicts []verdict.Verdict) {
	pod := l.object.Pod
	typ, _, _ := l.Admission.Names.TargetType(pod.Annotations)
	at := l.object.PodLine("metadata", "annotations", l.Admission.Names.TargetKey(typ))
	_, known := l.allows()
	_, warnings, err := l.Admission.Mutate(pod, admission.Origin{Namespace: l.namespaces[l.namespace()], Manifest: !known})
	if err != nil {
		l.findText(at, "namespace "+strconv.Quote(l.namespace())+": "+err.Error())
		return
	}
	l.findVerdicts(verdicts)
	// Validate has found the annotations that are ignored, and names each.
	// The cluster can have a claim that the files lack.
	warnings = slices.DeleteFunc(warnings, func(w admission.Warning) bool {
		return w.Reason == admission.AnnotationIgnored || w.Reason == admission.ClaimUnknown || w.Reason == admission.ClaimUnclear
	})
	for _, w := range warnings {
		switch w.Reason {
		case admission.NamespaceNotAnnotated, admission.TypeOff, admission.GuaranteedPod, admission.PodLevelCPU, admission.ClassWouldChange:
			if len(verdicts) == 0 {
				l.findText(at, w.String())
			}
		case admission.ResourceOff, admission.ResourceExcepted:
			l.findWritten(w.Subject)
		case admission.CoresWithoutTarget:
			l.find(l.object.PodLine("spec"), w.String(), "remove it; the webhook writes it")
		default:
			l.findText(at, w.String())
		}
	}
	if len(warnings) > 0 {
		return
	}
	for c := range admission.Running(pod) {
		_, isCounted := c.Resources.Requests[corev1.ResourceName(l.Admission.Names.CoresResource(typ))]
		if !requestsCPU(&c.Resources) && !isCounted {
			l.find(l.containerLine(c.Name),
				fmt.Sprintf("container %s requests no CPU, and has the least weight among the containers of workload type %q", strconv.Quote(c.Name), typ),
				"request cpu; it is counted as "+l.Admission.Names.CoresResource(typ))
		}
	}
}

// checkNotAsking checks a pod of no workload type.
func (l *linter) checkNotAsking(verdicts []verdict.Verdict) {
	names, pod := l.Admission.Names, l.object.Pod
	l.findVerdicts(verdicts)
	if types, _ := l.allows(); len(types) > 0 && len(verdicts) == 0 {
		if asking := l.wouldBe(types[0]); asking {
			l.find(l.object.PodLine("metadata"),
				fmt.Sprintf("namespace %q allows workload type %s, and the pod asks for none", l.namespace(), quoteAll(types)),
				fmt.Sprintf("add to %smetadata.annotations %s: '%s'", l.object.PodPath, names.TargetKey(types[0]), workload.TargetValue))
			return
		}
	}
	_, warnings, _ := l.Admission.Mutate(pod, admission.Origin{Manifest: true}) // of which no pod is refused that asks for nothing
	for _, w := range warnings {
		switch w.Reason { // Validate has found all others
		case admission.ResourceOff, admission.ResourceWithoutCPU, admission.ResourceExcepted:
			l.findWritten(w.Subject)
		}
	}
	l.checkPodPool()
	if r := pod.Spec.Resources; r != nil && requestsCPU(r) {
		return // the pools count it as a whole
	}
	isOnClaims := l.Admission.OnClaims(pod)
	for c := range admission.Running(pod) {
		if l.Admission.SharedCPUs && !l.Admission.Excepts(pod) && !requestsCPU(&c.Resources) && !isOnClaims(c.Name) {
			l.find(l.containerLine(c.Name), fmt.Sprintf("container %s requests no CPU, and no pool counts it", strconv.Quote(c.Name)), "request cpu")
		}
	}
}

// checkPodPool finds a container for which other containers of its pod leave no CPU.
func (l *linter) checkPodPool() {
	s := l.Admission
	s.GuaranteedCPUs, s.Exceptions = true, admission.Exceptions{} // the nodes have exclusive CPUs, whether or not the scheduler counts them
	_, warnings, _ := s.Mutate(l.object.Pod, admission.Origin{Manifest: true})
	for _, w := range warnings {
		if w.Reason == admission.PodPoolEmpty {
			l.findText(l.containerLine(w.Subject), w.String())
		}
	}
}

// findWritten adds the finding that a pod requests the resource of a pool.
func (l *linter) findWritten(resource string) {
	l.find(l.object.PodLine("spec"), fmt.Sprintf("the webhook removes or replaces the request of resource %q", resource), "remove it; the webhook writes it")
}

// wouldBe reports whether the pod could be of a type if it asked for it, maybe after more
// requests. A pod of QoS class Guaranteed could not.
func (l *linter) wouldBe(typ string) bool {
	asking := l.object.Pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&asking.ObjectMeta, l.Admission.Names.TargetKey(typ), workload.TargetValue)
	_, warnings, err := l.Admission.Mutate(asking, admission.Origin{Manifest: true})
	return err == nil && !slices.ContainsFunc(warnings, func(w admission.Warning) bool {
		return w.Reason == admission.GuaranteedPod || w.Reason == admission.PodLevelCPU
	})
}

// lineOf returns the line of the annotation or the container that a message names.
func (l *linter) lineOf(message string) int {
	for _, key := range slices.Sorted(maps.Keys(l.object.Pod.Annotations)) {
		if l.Admission.Names.Requests(key) && (strings.Contains(message, key) || strings.HasSuffix(key, message)) {
			return l.object.PodLine("metadata", "annotations", key)
		}
	}
	for _, c := range slices.Concat(l.object.Pod.Spec.InitContainers, l.object.Pod.Spec.Containers) {
		if strings.Contains(message, "container "+strconv.Quote(c.Name)) {
			return l.containerLine(c.Name)
		}
	}
	return l.object.PodLine("metadata", "annotations")
}

func (l *linter) containerLine(name string) int {
	if slices.ContainsFunc(l.object.Pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) {
		return l.object.PodLine("spec", "containers", name)
	}
	return l.object.PodLine("spec", "initContainers", name)
}

func requestsCPU(r *corev1.ResourceRequirements) bool { return requestedCPU(r).Sign() > 0 }

func quoteAll(types []string) string {
	quoted := make([]string, len(types))
	for i, typ := range types {
		quoted[i] = strconv.Quote(typ)
	}
	return strings.Join(quoted, ", ")
}
