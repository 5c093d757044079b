package admission

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// An Operation is one step of a JSON patch (RFC 6902), "add", "replace" or "remove".
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Patch returns the operations that make after of before, or nil if both are the same.
// [Settings.Mutate] and [RemoveVariables] have made after. The JSON of before is raw. The
// operations name only the difference: the pods of a newer API server have fields that this
// program does not know, also in resources.
func Patch(before, after *corev1.Pod, raw []byte) []Operation {
	before = withResources(before, after, raw)
	ops := patchMap("/metadata/annotations", before.Annotations, after.Annotations, func(a, b string) bool { return a == b })
	ops = append(ops, patchContainers("/spec/initContainers/", before.Spec.InitContainers, after.Spec.InitContainers)...)
	ops = append(ops, patchContainers("/spec/containers/", before.Spec.Containers, after.Spec.Containers)...)
	if before.Spec.Resources != nil && after.Spec.Resources != nil {
		ops = append(ops, patchResources("/spec/resources", before.Spec.Resources, after.Spec.Resources)...)
	}
	ops = append(ops, patchMap("/spec/nodeSelector", before.Spec.NodeSelector, after.Spec.NodeSelector, func(a, b string) bool { return a == b })...)
	return append(ops, patchTolerations(before.Spec.Tolerations, after.Spec.Tolerations)...)
}

func patchContainers(path string, before, after []corev1.Container) []Operation {
	var ops []Operation
	for i := range before {
		ops = append(ops, patchResources(path+strconv.Itoa(i)+"/resources", &before[i].Resources, &after[i].Resources)...)
		ops = append(ops, patchEnvironment(path+strconv.Itoa(i)+"/env", before[i].Env, after[i].Env)...)
	}
	return ops
}

// withResources returns before with an empty list of requests in each container that has
// resources in raw alone, which are fields that this program does not know.
func withResources(before, after *corev1.Pod, raw []byte) *corev1.Pod {
	news := func(before, after []corev1.Container) bool {
		for i := range before {
			if isZero(&before[i].Resources) && !isZero(&after[i].Resources) {
				return true
			}
		}
		return false
	}
	if !news(before.Spec.InitContainers, after.Spec.InitContainers) && !news(before.Spec.Containers, after.Spec.Containers) {
		return before
	}
	type container struct {
		Resources map[string]json.RawMessage `json:"resources"`
	}
	var pod struct {
		Spec struct {
			InitContainers []container `json:"initContainers"`
			Containers     []container `json:"containers"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(raw, &pod); err != nil { // raw is not the JSON of before
		return before
	}
	before = draft(before)
	fill := func(before []corev1.Container, raw []container) {
		for i := range min(len(before), len(raw)) {
			if raw[i].Resources != nil && isZero(&before[i].Resources) {
				before[i].Resources.Requests = corev1.ResourceList{}
			}
		}
	}
	fill(before.Spec.InitContainers, pod.Spec.InitContainers)
	fill(before.Spec.Containers, pod.Spec.Containers)
	return before
}

func isZero(r *corev1.ResourceRequirements) bool { return reflect.ValueOf(*r).IsZero() }

func patchResources(path string, before, after *corev1.ResourceRequirements) []Operation {
	// An operation needs a parent that exists.
	if isZero(before) {
		if isZero(after) {
			return nil
		}
		return []Operation{{Op: "add", Path: path, Value: after}}
	}
	equal := func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }
	return append(
		patchMap(path+"/requests", before.Requests, after.Requests, equal),
		patchMap(path+"/limits", before.Limits, after.Limits, equal)...)
}

// patchTolerations knows that tolerations are only appended.
func patchTolerations(before, after []corev1.Toleration) []Operation {
	const path = "/spec/tolerations"
	if len(before) == 0 && len(after) > 0 {
		return []Operation{{Op: "add", Path: path, Value: after}}
	}
	var ops []Operation
	for _, t := range after[len(before):] {
		ops = append(ops, Operation{Op: "add", Path: path + "/-", Value: t})
	}
	return ops
}

// patchMap patches the members of an object, in the order of their names.
func patchMap[K ~string, V any](path string, before, after map[K]V, equal func(a, b V) bool) []Operation {
	switch {
	case len(before) == 0 && len(after) == 0:
		return nil
	case len(before) == 0:
		return []Operation{{Op: "add", Path: path, Value: after}}
	}
	var ops []Operation
	for _, name := range slices.Sorted(maps.Keys(before)) {
		value, stays := after[name]
		switch {
		case !stays:
			ops = append(ops, Operation{Op: "remove", Path: member(path, string(name))})
		case !equal(before[name], value):
			ops = append(ops, Operation{Op: "replace", Path: member(path, string(name)), Value: value})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[name]; !was {
			ops = append(ops, Operation{Op: "add", Path: member(path, string(name)), Value: after[name]})
		}
	}
	return ops
}

// member is the path of a member (RFC 6901).
func member(path, name string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
