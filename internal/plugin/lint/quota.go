package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/quota"
)

const ownNamespace = ", or keep pods of workload types in a namespace without it"

// typ returns a workload type of the pods in the object's namespace, or "" without such pods.
func (l *linter) typ() string {
	if types, _ := l.allows(); len(types) > 0 {
		return types[0]
	}
	return l.asking[l.namespace()]
}

// checkLimitRange finds bounds that refuse pods after the webhook has changed their requests, and
// defaults that change the pool of a container. The API server fills in defaults when it reads
// the object: a maximum is a default limit, and a minimum a default request
// (SetDefaults_LimitRangeItem).
func (l *linter) checkLimitRange() {
	var ranges corev1.LimitRange
	if !l.read(&ranges) {
		return
	}
	l.checkDefaults(&ranges)
	for i, item := range ranges.Spec.Limits {
		if item.Type != corev1.LimitTypeContainer && item.Type != corev1.LimitTypePod {
			continue
		}
		for _, bound := range []struct {
			key            string
			list           corev1.ResourceList
			ofCPU, ofAPool string // effects on pods of a workload type, and of a bound on the resource of a pool
		}{
			{"default", item.Default, "limits containers of a workload type that have no limit of cpu", "has no effect, because the webhook writes this resource"},
			{"defaultRequest", item.DefaultRequest, "", "has no effect, because the webhook writes this resource"},
			{"min", item.Min, "refuses pods of a workload type, which request no cpu", "refuses containers of other pools, which request none"},
			{"max", item.Max, "refuses pods of a workload type, which have no limit of cpu", "refuses containers of other pools, which request none"},
			{"maxLimitRequestRatio", item.MaxLimitRequestRatio, "refuses pods of a workload type, which have no limit of cpu", "refuses containers of other pools, which request none"},
		} {
			for _, name := range slices.Sorted(maps.Keys(bound.list)) {
				effect, remedy := "", "remove "+bound.key+"."+string(name)
				switch {
				case l.Admission.Names.IsPool(string(name)):
					effect, remedy = bound.ofAPool, remedy+"; bound cpu instead, which pods of the shared and the guaranteed pool request, too"
				case name == corev1.ResourceCPU && l.typ() != "":
					effect, remedy = bound.ofCPU, remedy+ownNamespace
				}
				if effect != "" {
					q := bound.list[name]
					l.find(l.object.Line("spec", "limits", strconv.Itoa(i), bound.key),
						fmt.Sprintf("%s.%s %s of type %s %s", bound.key, name, q.String(), item.Type, effect), remedy)
				}
			}
		}
	}
}

// checkDefaults finds a LimitRange that makes a container without requests and limits Guaranteed.
func (l *linter) checkDefaults(ranges *corev1.LimitRange) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	r := admission.WithLimitRanges(pod, []corev1.LimitRange{*ranges}).Spec.Containers[0].Resources
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := r.Limits[name]
		if request := r.Requests[name]; !limited || limit.Sign() <= 0 || request.Cmp(limit) != 0 {
			return
		}
	}
	cpu := r.Limits[corev1.ResourceCPU]
	effect := ""
	switch {
	case cpu.MilliValue()%1000 == 0:
		effect = fmt.Sprintf("gives containers without requests and limits %s exclusive CPUs, because their pods are Guaranteed", cpu.String())
	case l.typ() != "":
		effect = "makes pods without requests and limits Guaranteed, and these have no workload type"
	default:
		return
	}
	for i, item := range ranges.Spec.Limits {
		key, q := "default", item.Default[corev1.ResourceCPU]
		if q.IsZero() {
			key, q = "max", item.Max[corev1.ResourceCPU]
		}
		if item.Type == corev1.LimitTypeContainer && q.Sign() > 0 {
			l.find(l.object.Line("spec", "limits", strconv.Itoa(i), key), fmt.Sprintf("%s.cpu %s of type %s %s", key, q.String(), item.Type, effect),
				"write a lower defaultRequest.cpu")
			return
		}
	}
}

// checkQuota finds limits of a ResourceQuota that refuse pods of a workload type, and limits on
// the resources of pools that count nothing or were meant in CPUs. A quota on cpu makes every
// container request it (quota evaluator of pods, Constraints).
func (l *linter) checkQuota() {
	var q corev1.ResourceQuota
	if !l.read(&q) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
		hard := q.Spec.Hard[name]
		if effect, found := quota.OfQuota(l.Admission.Names, l.typ(), string(name), hard); found {
			l.find(l.object.Line("spec", "hard", string(name)), fmt.Sprintf("a quota of %s %s %s", hard.String(), name, effect.Text), effect.Remedy)
		}
	}
}
