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
	ops := patchMap("/metadata/annotations", before.Annotations, after.Annotations, func(a, b string) bool { return a == b })
	var pod *rawPod
	hasResources := func(list string, i int) bool {
		if pod == nil { // few pods need it
			pod = &rawPod{}
			_ = json.Unmarshal(raw, pod) // fails only if raw is not the JSON of before
		}
		all := pod.Spec.Containers
		if list == "initContainers" {
			all = pod.Spec.InitContainers
		}
		return i < len(all) && all[i].Resources != nil
	}
	ops = append(ops, patchContainers("initContainers", before.Spec.InitContainers, after.Spec.InitContainers, hasResources)...)
	ops = append(ops, patchContainers("containers", before.Spec.Containers, after.Spec.Containers, hasResources)...)
	if before.Spec.Resources != nil && after.Spec.Resources != nil {
		ops = append(ops, patchResources("/spec/resources", before.Spec.Resources, after.Spec.Resources)...)
	}
	ops = append(ops, patchMap("/spec/nodeSelector", before.Spec.NodeSelector, after.Spec.NodeSelector, func(a, b string) bool { return a == b })...)
	return append(ops, patchTolerations(before.Spec.Tolerations, after.Spec.Tolerations)...)
}

// rawPod has the fields resources of a pod, which may have fields that this program does not know.
type rawPod struct {
	Spec struct {
		InitContainers []rawContainer `json:"initContainers"`
		Containers     []rawContainer `json:"containers"`
	} `json:"spec"`
}

type rawContainer struct {
	Resources map[string]json.RawMessage `json:"resources"`
}

func patchContainers(list string, before, after []corev1.Container, hasResources func(list string, i int) bool) []Operation {
	var ops []Operation
	for i := range before {
		had := before[i].Resources
		if isZero(&had) && !isZero(&after[i].Resources) && hasResources(list, i) {
			had.Requests = corev1.ResourceList{} // it has resources in raw alone
		}
		path := "/spec/" + list + "/" + strconv.Itoa(i)
		ops = append(ops, patchResources(path+"/resources", &had, &after[i].Resources)...)
		ops = append(ops, patchEnvironment(path+"/env", before[i].Env, after[i].Env)...)
	}
	return ops
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
