package admission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Reason is the reason why a pod did not get something that it asks for.
type Reason string

// The reasons. All but the last ten are about a workload type.
const (
	TypeOff               Reason = "type-off"
	NamespaceNotAnnotated Reason = "namespace-not-annotated"
	PodLevelCPU           Reason = "pod-level-cpu"
	GuaranteedPod         Reason = "guaranteed-pod"
	ClassWouldChange      Reason = "qos-class-would-change"
	CoresWithoutTarget    Reason = "cores-without-target"
	ResourceOff           Reason = "resource-off"
	AnnotationIgnored     Reason = "annotation-ignored"
	VariableRemoved       Reason = "variable-removed"
	PodPoolEmpty          Reason = "pod-pool-empty"
	ResourceWithoutCPU    Reason = "resource-without-cpu"
	NodeWithoutDaemon     Reason = "node-without-daemon"
	ResourceExcepted      Reason = "resource-excepted"
	ClaimUnknown          Reason = "claim-unknown"
	ClaimUnclear          Reason = "claim-unclear"
)

// Warning is one thing that a pod asks for and does not get, although it is admitted.
type Warning struct {
	Reason Reason
	// Subject is the workload type. With ResourceOff, ResourceWithoutCPU, NodeWithoutDaemon and
	// ResourceExcepted it is the name of the resource. With AnnotationIgnored and VariableRemoved it is the name of the annotation or the variable.
	// With PodPoolEmpty it is the name of a container. With ClaimUnknown and ClaimUnclear it is the name of an entry of
	// spec.resourceClaims, or of an extended resource.
	Subject string
	// cause is the cause of TypeOff and of ResourceOff.
	cause cause
}

// A cause is the reason why a workload type or the resource of a pool is off. The zero value
// is a type without a switch.
type cause struct {
	// is is SwitchOff, SwitchAuto if nodes keep the type or the resource off, or empty.
	is Switch
	// lack holds these nodes.
	lack Lack
}

// warning returns the warning that a pod cannot have a workload type.
func (s Settings) warning(reason Reason, typ string) Warning {
	w := Warning{Reason: reason, Subject: typ}
	if reason == NodeWithoutDaemon {
		w.Subject = s.Names.CoresResource(typ)
	}
	if _, configured := s.Types[typ]; reason == TypeOff && configured {
		w.cause = s.cause(s.Names.CoresResource(typ))
	}
	return w
}

// removed returns the warning that a pod loses the resource of a pool.
func (s Settings) removed(resource string) Warning {
	switch {
	case s.outside:
		return Warning{Reason: NodeWithoutDaemon, Subject: resource}
	case s.excepted:
		return Warning{Reason: ResourceExcepted, Subject: resource}
	}
	return Warning{ResourceOff, resource, s.cause(resource)}
}

// cause returns the reason why a resource with a switch is off.
func (s Settings) cause(resource string) cause {
	if lack, waits := s.Waits[resource]; waits {
		return cause{SwitchAuto, lack}
	}
	return cause{is: SwitchOff}
}

// waiting is the format of a cause with the number of nodes without the resource, the
// number of all schedulable nodes, and the name of one node. A space follows the name, so
// that Sscanf finds its end.
const waiting = "%d of %d schedulable nodes do not advertise the resource, and node %s is one of them; " +
	"give these nodes the pool, then create the pod again"

// text returns the end of the sentence, with the remedy.
func (c cause) text() string {
	switch {
	case c.is == "":
		return "the webhook's configuration has no such type; correct the annotation, or add the type to types"
	case c.is == SwitchOff:
		return "its switch in the webhook's configuration is off; set it to auto or on, then create the pod again"
	case c.lack.Schedulable == 0:
		return "the cluster has no schedulable node on which a daemon can run (not Windows, not virtual); add or uncordon such a node, then create the pod again"
	case c.lack.Nodes == 0:
		return "all schedulable nodes advertise the resource, but its latch is not stored yet; " +
			"create the pod again, or read the log of cpupool-webhook"
	}
	return fmt.Sprintf(waiting, c.lack.Nodes, c.lack.Schedulable, c.lack.Example)
}

// causeOf returns the cause with this text, or the zero value if there is no such cause.
func causeOf(text string) cause {
	for _, c := range []cause{{is: SwitchOff}, {is: SwitchAuto}, {SwitchAuto, Lack{Schedulable: 1}}} {
		if c.text() == text {
			return c
		}
	}
	c := cause{is: SwitchAuto}
	if _, err := fmt.Sscanf(text, waiting, &c.lack.Nodes, &c.lack.Schedulable, &c.lack.Example); err != nil ||
		len(validation.IsDNS1123Subdomain(c.lack.Example)) > 0 {
		return cause{}
	}
	return c
}

// words returns the start of a warning, before its subject in quotes, and the end of the sentence. The
// text of a cause follows if the reason has several causes.
func (r Reason) words() (subject, text string) {
	for _, w := range [...]struct {
		Reason
		subject, text string
	}{
		{TypeOff, "workload type ", "is ignored: "},
		{NamespaceNotAnnotated, "workload type ", "is ignored: the namespace has no annotation that allows it"},
		{PodLevelCPU, "workload type ", "is ignored: the pod asks for CPU in spec.resources, which is counted as cpu; ask for it in its containers"},
		{GuaranteedPod, "workload type ", "is ignored: the pod is of QoS class Guaranteed; ask for less CPU or memory than its limits"},
		{ClassWouldChange, "workload type ", "is ignored: without its CPU requests the pod's QoS class would be BestEffort instead of Burstable; request memory too"},
		{CoresWithoutTarget, "workload type ", "is not asked for by an annotation: its resource was removed, and became a CPU request where there was none"},
		{ResourceOff, "resource ", "was removed: "},
		{AnnotationIgnored, "annotation ", "is ignored, like all in the old form; request cpu instead"},
		{VariableRemoved, "environment variable ", "was removed: CRI-O would add CPUs of other containers to the container; the runtime or cpupoold sets it"},
		{PodPoolEmpty, "container ", "gets no CPU: other containers take all CPUs of the pod for themselves, so the node refuses one of the containers; " +
			"request more cpu in spec.resources"},
		{ResourceWithoutCPU, "resource ", "was removed: only cpu requests count for the pools; request cpu instead, for exclusive CPUs as whole CPUs in a Guaranteed pod"},
		{NodeWithoutDaemon, "resource ", "is not requested: the pod can run only on nodes without the daemon, such as Windows nodes and virtual nodes; request cpu alone"},
		{ResourceExcepted, "resource ", "was removed: exceptions of the webhook's configuration name the pod's namespace or nodes; request cpu alone"},
		{ClaimUnknown, "resource claim ", "is not known to the webhook, so it counts cpu requests of containers with the claim for the pools; " +
			"create the claim, its template and its DeviceClass before the pod, and check that the webhook may list them"},
		{ClaimUnclear, "resource claim ", "can get CPUs or other devices, so the webhook counts cpu requests of containers with the claim for the pools; " +
			"request cpu: 1m there, or devices of one driver"},
	} {
		if w.Reason == r {
			return w.subject, w.text
		}
	}
	return "", ""
}

// hasCauses reports whether the sentence of a reason ends with the text of a cause.
func (r Reason) hasCauses() bool { return r == TypeOff || r == ResourceOff }

// Reasons returns all reasons.
func Reasons() []Reason {
	return []Reason{TypeOff, NamespaceNotAnnotated, PodLevelCPU, GuaranteedPod, ClassWouldChange, CoresWithoutTarget, ResourceOff, AnnotationIgnored, VariableRemoved, PodPoolEmpty, ResourceWithoutCPU, NodeWithoutDaemon, ResourceExcepted, ClaimUnknown, ClaimUnclear}
}

// String is one line, as it stands in the pod's annotation.
func (w Warning) String() string {
	// An annotation's name may be of any length and hold anything before the API
	// server has validated the pod.
	const longest = 80
	name := w.Subject
	if len(name) > longest {
		name = name[:longest] + "..."
	}
	subject, text := w.Reason.words()
	if w.Reason.hasCauses() {
		text += w.cause.text()
	}
	return subject + strconv.Quote(name) + " " + text
}

// consists reports whether each line of a text is the sentence of a warning of one of the
// reasons, so that no other text passes for a warning.
func consists(text string, of []Reason) bool {
	for line := range strings.SplitSeq(text, "\n") {
		if !slices.ContainsFunc(of, func(r Reason) bool { return isWarning(line, r) }) {
			return false
		}
	}
	return true
}

// isWarning reports whether a line is the sentence of a warning of this reason.
func isWarning(line string, of Reason) bool {
	start, end := of.words()
	subject, ok := strings.CutPrefix(line, start)
	if !ok {
		return false
	}
	quoted, err := strconv.QuotedPrefix(subject)
	if err != nil {
		return false
	}
	name, err := strconv.Unquote(quoted)
	if err != nil {
		return false
	}
	is := cause{}
	if text, ok := strings.CutPrefix(subject[len(quoted):], " "+end); ok && of.hasCauses() {
		is = causeOf(text)
	}
	return Warning{of, name, is}.String() == line
}

// join adds warnings to the lines of an earlier text of ours, each once.
func join(earlier string, warnings []Warning) string {
	var lines []string
	if earlier != "" {
		lines = strings.Split(earlier, "\n")
	}
	for _, w := range warnings {
		if line := w.String(); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
