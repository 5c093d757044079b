package admission

import (
	"strconv"
	"strings"
)

// Reason says why a pod did not get what it asks for.
type Reason string

// The reasons. All but the last two are about a workload type.
const (
	TypeOff               Reason = "type-off"
	NamespaceNotAnnotated Reason = "namespace-not-annotated"
	PodLevelCPU           Reason = "pod-level-cpu"
	GuaranteedPod         Reason = "guaranteed-pod"
	ClassWouldChange      Reason = "qos-class-would-change"
	CoresWithoutTarget    Reason = "cores-without-target"
	ResourceOff           Reason = "resource-off"
)

// Warning is one thing that a pod asks for and does not get, although it is admitted.
type Warning struct {
	Reason Reason
	// Subject is the workload type; with ResourceOff, the name of the resource.
	Subject string
}

// What a warning starts with, before its subject in quotes.
const (
	typeSubject     = "workload type "
	resourceSubject = "resource "
)

// text returns the end of a warning's sentence.
func (r Reason) text() string {
	switch r {
	case TypeOff:
		return "is ignored: it is not switched on in this cluster"
	case NamespaceNotAnnotated:
		return "is ignored: the namespace has no annotation that allows it"
	case PodLevelCPU:
		return "is ignored: the pod asks for CPU in spec.resources, which is counted as cpu; ask for it in its containers"
	case GuaranteedPod:
		return "is ignored: the pod is of QoS class Guaranteed; ask for less CPU or memory than its limits"
	case ClassWouldChange:
		return "is ignored: without its CPU requests the pod's QoS class would be BestEffort instead of Burstable; request memory too"
	case CoresWithoutTarget:
		return "is not asked for by an annotation: its resource was removed, and became a CPU request where there was none"
	case ResourceOff:
		return "was removed: it is not switched on in this cluster"
	default:
		return ""
	}
}

// Reasons returns all that there are.
func Reasons() []Reason {
	return []Reason{TypeOff, NamespaceNotAnnotated, PodLevelCPU, GuaranteedPod, ClassWouldChange, CoresWithoutTarget, ResourceOff}
}

// String is one line, as it stands in the pod's annotation.
func (w Warning) String() string {
	subject := typeSubject
	if w.Reason == ResourceOff {
		subject = resourceSubject
	}
	// An annotation's name may be of any length and hold anything before the API
	// server has validated the pod.
	const longest = 80
	name := w.Subject
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	return subject + strconv.Quote(name) + " " + w.Reason.text()
}

// ours says that a text consists of lines that a Warning could be. The sentences
// are fixed, so that nobody else's text passes for one of ours.
func ours(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !isWarning(line) {
			return false
		}
	}
	return true
}

func isWarning(line string) bool {
	for _, r := range Reasons() {
		subject, ok := strings.CutSuffix(line, " "+r.text())
		if !ok {
			continue
		}
		name, ok := strings.CutPrefix(subject, typeSubject)
		if r == ResourceOff {
			name, ok = strings.CutPrefix(subject, resourceSubject)
		}
		if name, err := strconv.Unquote(name); ok && err == nil {
			return Warning{r, name}.String() == line
		}
	}
	return false
}

// join adds warnings to the lines of an earlier text of ours, each once.
func join(earlier string, warnings []Warning) string {
	var lines []string
	if earlier != "" {
		lines = strings.Split(earlier, "\n")
	}
	for _, w := range warnings {
		line, known := w.String(), false
		for _, l := range lines {
			known = known || l == line
		}
		if !known {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
