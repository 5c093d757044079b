package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// pod returns the pod of an object with the names of the object, as webhooks see it.
func (l *linter) pod(o *manifest.Object) *corev1.Pod {
	pod := *o.Pod
	namespace := cmp.Or(o.Namespace, l.Namespace)
	pod.Name, pod.Namespace = o.Name, namespace
	return admission.WithLimitRanges(&pod, l.limits[namespace])
}

// answers returns the answer of explain for each container of a pod, on a node with room. The
// webhook changes the pod before.
func (l *linter) answers(pod *corev1.Pod) []simulate.Answer {
	p := simulate.Presumed{Names: l.Admission.Names, Namespaces: l.namespaces, PodLevel: l.Admission.PodLevel, Defaults: l.Admission.Defaults}
	annotations, known := l.namespaces[pod.Namespace]
	if l.Allowed != nil && !known {
		p.Namespaces = map[string]map[string]string{pod.Namespace: nil}
	}
	for typ, on := range l.Admission.Types {
		if on {
			p.Types = append(p.Types, typ)
		}
	}
	slices.Sort(p.Types)
	changed, warnings, err := l.Admission.Mutate(pod, admission.Origin{Namespace: annotations, Manifest: !known && l.Allowed == nil})
	if err != nil {
		return nil // it is a finding of its own
	}
	for _, w := range warnings {
		if w.Reason == admission.PodLevelCPU || w.Reason == admission.ClassWouldChange {
			pod = changed // the planner does not have these reasons
		}
	}
	all, err := p.Answers(pod)
	if err != nil {
		return nil // the pod has no node, because two of its containers have the same name
	}
	return all
}

// verdicts returns each verdict that is a mistake, once.
func (l *linter) verdicts(pod *corev1.Pod) (all []verdict.Verdict) {
	facts := simulate.Facts(pod, l.Admission.Defaults)
	isOnClaims := l.Admission.OnClaims(pod)
	for _, a := range l.answers(pod) {
		if !isOnClaims(a.Name) && !slices.Contains(all, a.Verdict) && isMistake(&a, facts) {
			all = append(all, a.Verdict)
		}
	}
	return all
}

// isMistake reports whether the author of a pod meant another place, because an annotation or a
// label requests it. A Burstable pod is a mistake if a container has whole CPUs as its limit and
// its request. It is also a mistake if the pod has a limit of whole CPUs without a request. A
// fraction is a mistake above one CPU.
func isMistake(a *simulate.Answer, pod *verdict.Pod) bool {
	all := pod.Containers
	if pod.Total != nil {
		all = append(slices.Clip(all), *pod.Total)
	}
	switch a.Verdict.Code {
	case pools.CodeBurstable, pools.CodeBestEffort:
		return slices.ContainsFunc(all, func(c verdict.Container) bool {
			whole := c.CPU.Limit > 0 && c.CPU.Limit%1000 == 0
			return whole && c.Kind != "init container" && (c.CPU.Request == c.CPU.Limit || c.Kind == "" && c.CPU.Request == 0)
		})
	case pools.CodeFractional:
		return slices.ContainsFunc(all, func(c verdict.Container) bool { return c.Name == a.Name && c.CPU.Limit > 1000 }) ||
			pod.Total != nil && pod.Total.CPU.Limit > 1000
	}
	return a.Field != "containers"
}

func (l *linter) findVerdicts(all []verdict.Verdict) {
	for _, v := range all {
		line := l.object.PodLine("metadata", v.Field, v.Subject)
		if v.Field == "containers" {
			line = l.containerLine(v.Subject)
		}
		remedy := cmp.Or(v.Fix, "see the message")
		if v.Code == pools.CodeTypeUnknown {
			remedy += ", or give its type with --type"
		}
		l.findCode(line, v.Sentence, remedy, string(v.Code))
	}
}

// checkKeys finds annotations of a pod that nothing reads, and that no verdict names. It also
// finds values that the options of exclusive CPUs do not have.
func (l *linter) checkKeys(verdicts []verdict.Verdict) {
	names := l.Admission.Names
	p := verdict.Pod{Names: names, Types: slices.Sorted(maps.Keys(l.Admission.Types))}
	prefix := strings.TrimSuffix(names.AllowedKey(), "allowed")
	for _, key := range slices.Sorted(maps.Keys(l.object.Pod.Annotations)) {
		if err := p.OptionError(key, l.object.Pod.Annotations[key]); err != nil {
			l.findCode(l.object.PodLine("metadata", "annotations", key), fmt.Sprintf("annotation %s has no effect: its value %v", key, err),
				"write a value that the option has, or remove the annotation", string(pools.CodeOverrideInvalid))
		}
		named := slices.ContainsFunc(verdicts, func(v verdict.Verdict) bool { return v.Subject == key })
		typ, first := strings.CutPrefix(key, prefix) // OpenShift's first form requested a type there
		meant := p.Meant(key)
		if named || key == names.WarningKey() || !first && meant == "" {
			continue
		}
		message, remedy := fmt.Sprintf("annotation %s of a pod has no effect", key), "write "+meant
		switch {
		case key == names.AllowedKey():
			remedy = "move it to the namespace"
		case first:
			remedy = fmt.Sprintf("write %s: '%s', or remove it", names.TargetKey(typ), workload.TargetValue)
		default:
			message += " (did you mean " + meant + "?)"
		}
		l.find(l.object.PodLine("metadata", "annotations", key), message, remedy)
	}
}

// managed reports whether all containers of a pod run in a management pool.
func (l *linter) managed(o *manifest.Object) bool {
	all := l.answers(l.pod(o))
	return len(all) > 0 && !slices.ContainsFunc(all, func(a simulate.Answer) bool { return a.Pool != inspect.Management })
}
