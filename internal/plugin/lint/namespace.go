package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// counts reports whether pods of a workload type may be in the object's namespace.
func (l *linter) counts() bool {
	types, _ := l.allows()
	return len(types) > 0 || l.asking[l.namespace()]
}

const ownNamespace = ", or keep pods of workload types in a namespace without it"

// checkLimitRange finds what gives containers CPU requests that the webhook has
// taken away, and what refuses pods without. The API server fills in defaults when it reads
// the object: a maximum is a default limit, and a minimum a default request
// (SetDefaults_LimitRangeItem).
func (l *linter) checkLimitRange() {
	var ranges corev1.LimitRange
	if !l.read(&ranges) || !l.counts() {
		return
	}
	for i, item := range ranges.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod {
			continue
		}
		for _, bound := range []struct {
			key    string
			list   corev1.ResourceList
			effect string
		}{
			{"default", item.Default, "gives containers CPU again that the webhook has taken away"},
			{"defaultRequest", item.DefaultRequest, "gives containers CPU again that the webhook has taken away"},
			{"min", item.Min, "refuses pods of a workload type, which request no cpu"},
			{"max", item.Max, "refuses pods of a workload type, which have no limit of cpu"},
			{"maxLimitRequestRatio", item.MaxLimitRequestRatio, "refuses pods of a workload type, which have no limit of cpu"},
		} {
			if q, ok := bound.list[corev1.ResourceCPU]; ok {
				l.find(l.object.Line("spec", "limits", strconv.Itoa(i), bound.key), fmt.Sprintf("%s.cpu %s of type %s %s", bound.key, q.String(), item.Type, bound.effect),
					fmt.Sprintf("remove %s.cpu%s", bound.key, ownNamespace))
			}
		}
	}
}

// checkQuota finds quotas that make every container request CPU (quota evaluator of
// pods, Constraints).
func (l *linter) checkQuota() {
	var quota corev1.ResourceQuota
	if !l.read(&quota) || !l.counts() {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU} {
		if q, ok := quota.Spec.Hard[name]; ok {
			l.find(l.object.Line("spec", "hard", string(name)),
				fmt.Sprintf("a quota of %s %s refuses pods of a workload type, whose containers have none", q.String(), name),
				fmt.Sprintf("remove %s%s", name, ownNamespace))
		}
	}
}

// checkNamespace finds a misspelt annotation of a namespace, and misspelt workload types in it.
func (l *linter) checkNamespace() {
	allowed := l.Admission.Names.AllowedKey()
	types := slices.Sorted(maps.Keys(l.Admission.Types))
	for typ := range strings.SplitSeq(l.object.Annotations[allowed], ",") {
		if meant := spelling.Near(typ, types); meant != "" {
			l.find(l.object.Line("metadata", "annotations", allowed),
				fmt.Sprintf("annotation %s of a namespace allows the unknown workload type %q (did you mean %s?)", allowed, typ, meant), "write "+meant)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(l.object.Annotations)) {
		if spelling.Near(key, []string{allowed}) != "" {
			l.find(l.object.Line("metadata", "annotations", key),
				fmt.Sprintf("annotation %s of a namespace has no effect (did you mean %s?)", key, allowed), "write "+allowed)
		}
	}
}
