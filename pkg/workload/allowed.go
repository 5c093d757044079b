package workload

import (
	"slices"
	"strings"
)

// allowedPrefix stands before the domain in the old form of the namespace's
// annotation.
const allowedPrefix = "allowed."

// Allowed reports whether a namespace with these annotations allows the workload type for
// its pods, and whether it has an annotation about types. Types are
// compared exactly, blanks around them included, as in OpenShift. The old form of
// the annotation, allowed.workload.openshift.io, counts only without the new one.
func (n Names) Allowed(namespace map[string]string, typ string) (allowed, annotated bool) {
	list, annotated := n.allowedList(namespace)
	return typ != "" && slices.Contains(strings.Split(list, ","), typ), annotated
}

// allowedList is the value of the annotation, in its new form or else in the old one.
func (n Names) allowedList(namespace map[string]string) (list string, annotated bool) {
	if list, annotated = namespace[n.AllowedKey()]; annotated {
		return list, true
	}
	list, annotated = namespace[allowedPrefix+n.domain()]
	return list, annotated
}

// allowedTypes returns the types in the list, sorted, without invalid names.
func (n Names) allowedTypes(namespace map[string]string) []string {
	list, _ := n.allowedList(namespace)
	var types []string
	for t := range strings.SplitSeq(list, ",") {
		if t != "" && len(t) <= maxType && len(types) < maxTypes && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	slices.Sort(types)
	return types
}
