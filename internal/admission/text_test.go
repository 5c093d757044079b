package admission_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

// claims are the uses of templates, their requests and extended resources.
type claims map[string]cpuclaim.Use

func (c claims) UseOf(_ string, entry *corev1.PodResourceClaim, request string) cpuclaim.Use {
	return c[strings.TrimSuffix(*entry.ResourceClaimTemplateName+"/"+request, "/")]
}

func (c claims) UseOfResource(name string) cpuclaim.Use { return c[name] }

// Pods in tests are texts with one line for each annotation and container:
//
//	@name value
//	app|init|sidecar|debug name requests | limits
//	pod requests | limits
//	select label=value
//	label name=value
//	entry name=template
//
// in which resources are name=quantity, separated by blanks. claim:entry and claim:entry/request
// are claims of a container.

// parsePod reads a pod. A container that is there already is replaced.
func parsePod(pod *corev1.Pod, text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		kind, rest, _ := strings.Cut(line, " ")
		if line == "" {
			continue
		}
		if key, ok := strings.CutPrefix(kind, "@"); ok {
			if pod.Annotations == nil {
				pod.Annotations = map[string]string{}
			}
			pod.Annotations[key] = strings.ReplaceAll(rest, `\n`, "\n")
			continue
		}
		if key, value, ok := strings.Cut(rest, "="); ok && kind == "select" {
			if pod.Spec.NodeSelector == nil {
				pod.Spec.NodeSelector = map[string]string{}
			}
			pod.Spec.NodeSelector[key] = value
			continue
		}
		if key, value, ok := strings.Cut(rest, "="); ok && kind == "label" {
			pod.Labels = map[string]string{key: value}
			continue
		}
		if name, template, ok := strings.Cut(rest, "="); ok && kind == "entry" {
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimTemplateName: &template})
			continue
		}
		name := ""
		if kind != "pod" {
			name, rest, _ = strings.Cut(rest, " ")
		}
		r, err := parseResources(rest)
		if err != nil {
			return fmt.Errorf("line %q: %w", line, err)
		}
		always := corev1.ContainerRestartPolicyAlways
		switch kind {
		case "app":
			replace(&pod.Spec.Containers, corev1.Container{Name: name, Resources: r})
		case "init":
			replace(&pod.Spec.InitContainers, corev1.Container{Name: name, Resources: r})
		case "sidecar":
			replace(&pod.Spec.InitContainers, corev1.Container{Name: name, Resources: r, RestartPolicy: &always})
		case "debug":
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Resources: r},
			})
		case "pod":
			pod.Spec.Resources = &r
		default:
			return fmt.Errorf("line %q: unknown kind %q", line, kind)
		}
	}
	return nil
}

func replace(list *[]corev1.Container, c corev1.Container) {
	i := slices.IndexFunc(*list, func(o corev1.Container) bool { return o.Name == c.Name })
	if i < 0 {
		*list = append(*list, c)
		return
	}
	*list = slices.Clone(*list)
	(*list)[i] = c
}

func parseResources(text string) (corev1.ResourceRequirements, error) {
	requests, limits, _ := strings.Cut(text, "|")
	var r corev1.ResourceRequirements
	for _, part := range []struct {
		text string
		list *corev1.ResourceList
	}{{requests, &r.Requests}, {limits, &r.Limits}} {
		for field := range strings.FieldsSeq(part.text) {
			if claim, ok := strings.CutPrefix(field, "claim:"); ok {
				entry, request, _ := strings.Cut(claim, "/")
				r.Claims = append(r.Claims, corev1.ResourceClaim{Name: entry, Request: request})
				continue
			}
			name, value, _ := strings.Cut(field, "=")
			q, err := resource.ParseQuantity(value)
			if err != nil {
				return r, fmt.Errorf("resource %q: %w", field, err)
			}
			if *part.list == nil {
				*part.list = corev1.ResourceList{}
			}
			(*part.list)[corev1.ResourceName(name)] = q
		}
	}
	return r, nil
}

// formatPod writes a pod as parsePod reads it.
func formatPod(pod *corev1.Pod) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		fmt.Fprintln(&b, strings.TrimSpace("@"+key+" "+strings.ReplaceAll(pod.Annotations[key], "\n", `\n`)))
	}
	for key, value := range pod.Labels {
		fmt.Fprintf(&b, "label %s=%s\n", key, value)
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		fmt.Fprintf(&b, "select %s=%s\n", key, pod.Spec.NodeSelector[key])
	}
	for _, e := range pod.Spec.ResourceClaims {
		fmt.Fprintf(&b, "entry %s=%s\n", e.Name, *e.ResourceClaimTemplateName)
	}
	if pod.Spec.Resources != nil {
		line(&b, "pod", *pod.Spec.Resources)
	}
	for _, c := range pod.Spec.InitContainers {
		kind := "init "
		if c.RestartPolicy != nil {
			kind = "sidecar "
		}
		line(&b, kind+c.Name, c.Resources)
	}
	for _, c := range pod.Spec.Containers {
		line(&b, "app "+c.Name, c.Resources)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		line(&b, "debug "+c.Name, c.Resources)
	}
	return b.String()
}

func line(b *strings.Builder, head string, r corev1.ResourceRequirements) {
	fields := []string{head}
	for _, c := range r.Claims {
		fields = append(fields, strings.TrimSuffix("claim:"+c.Name+"/"+c.Request, "/"))
	}
	for i, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		if i == 1 && len(list) > 0 {
			fields = append(fields, "|")
		}
		for _, name := range slices.Sorted(maps.Keys(list)) {
			q := list[name]
			fields = append(fields, string(name)+"="+q.String())
		}
	}
	fmt.Fprintln(b, strings.Join(fields, " "))
}

// parseSettings reads lines of these forms:
//
//	on TYPE...
//	off TYPE...
//	waits TYPE|RESOURCE NODES SCHEDULABLE EXAMPLE
//	shared
//	guaranteed
//	node
//	manifest
//	domain D
//	pools D
//	kubernetes MINOR|static
//	podLevel pod|container
//	override
//	kubevirt
//	namespace NAME=VALUE...
//	claims TEMPLATE|TEMPLATE/REQUEST|RESOURCE=cpus|other|unclear|unknown...
func parseSettings(text string) (s admission.Settings, from admission.Origin, err error) {
	s.Types, s.Waits, from.Namespace = map[string]bool{}, map[string]admission.Lack{}, map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "on":
			for _, typ := range fields[1:] {
				s.Types[typ] = true
			}
		case "off":
			for _, typ := range fields[1:] {
				s.Types[typ] = false
			}
		case "waits":
			var resource string
			var lack admission.Lack
			if _, err := fmt.Sscanln(strings.Join(fields[1:], " "), &resource, &lack.Nodes, &lack.Schedulable, &lack.Example); err != nil {
				return s, from, fmt.Errorf("setting %q: %w", line, err)
			}
			if !strings.Contains(resource, "/") {
				s.Types[resource] = false
				resource = s.Names.CoresResource(resource)
			}
			s.Waits[resource] = lack
		case "namespace":
			for _, f := range fields[1:] {
				key, value, _ := strings.Cut(f, "=")
				from.Namespace[key] = value
			}
		case "claims":
			all := claims{}
			for _, f := range fields[1:] {
				name, use, _ := strings.Cut(f, "=")
				all[name] = map[string]cpuclaim.Use{"cpus": cpuclaim.CPUs, "unclear": cpuclaim.Unclear, "unknown": cpuclaim.Unknown}[use]
			}
			s.Claims = all
		case "domain":
			s.Names.Domain = fields[1]
		case "pools":
			s.Names.PoolDomain = fields[1]
		case "kubernetes":
			s.Defaults = admission.DefaultNothing
			if fields[1] != "static" {
				minor, err := strconv.Atoi(fields[1])
				if err != nil {
					return s, from, fmt.Errorf("setting %q: %w", line, err)
				}
				s.Defaults = admission.DefaultsOf(minor)
			}
		case "podLevel":
			s.PodLevel = admission.PodLevel(fields[1])
		case "override":
			s.PodLevelOverride = true
		case "kubevirt":
			s.KubeVirt = true
		case "shared":
			s.SharedCPUs = true
		case "guaranteed":
			s.GuaranteedCPUs = true
		case "node":
			from.Node = true
		case "manifest":
			from.Manifest = true
		default:
			return s, from, fmt.Errorf("setting %q is unknown", fields[0])
		}
	}
	return s, from, nil
}
