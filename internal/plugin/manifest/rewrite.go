package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// Mutate returns the changed pod, and notes for its author. It must not change the
// given pod, which has the namespace of its object.
type Mutate func(*corev1.Pod) (pod *corev1.Pod, notes []string, err error)

// Result is what Rewrite makes of a file.
type Result struct {
	// After is the new content of the file. Changed documents have uniform indentation.
	// Other documents, and the text between documents, are unchanged.
	After []byte
	// Before is the file with only the indentation of these documents changed: from
	// here to After the mutation alone makes the difference. Without one, both are
	// the file.
	Before []byte
	// Notes are one line each, and name the object.
	Notes []string
}

// Rewrite mutates the pods of all documents of a YAML or JSON file: Pod, the
// templates of Deployment, ReplicaSet, StatefulSet, DaemonSet, Job and CronJob, and
// those in a List. Objects of other kinds stay as they are. JSON stays JSON. Errors
// name line or object. A document in which an alias stands for values that change in one
// place only is an error. Rewrite joins the errors of all objects; with errors, the
// result has only the notes of the other objects.
func Rewrite(data []byte, mutate Mutate) (Result, error) {
	parts, err := read(data)
	if err != nil {
		return Result{}, err
	}
	encode := part.encode
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data) {
		encode = func(p part) ([]byte, error) { return encodeJSON(p.documents[0], p.text) }
	}
	var result Result
	var errs []error
	for _, p := range parts {
		before, after := p.text, p.text
		if len(p.documents) > 0 {
			if before, err = encode(p); err != nil {
				return Result{}, err
			}
			for _, doc := range p.documents {
				notes, err := rewriteObject(doc.Content[0], "", "", mutate)
				result.Notes, errs = append(result.Notes, notes...), append(errs, err)
			}
			if after, err = encode(p); err != nil {
				return Result{}, err
			}
		}
		if bytes.Equal(before, after) {
			before, after = p.text, p.text
		}
		result.Before = append(result.Before, before...)
		result.After = append(result.After, after...)
	}
	if err := errors.Join(errs...); err != nil {
		return Result{Notes: result.Notes}, err
	}
	return result, nil
}

// template returns the path from an object to what its pods are made of, and false
// for objects that make no pods.
func template(apiVersion, kind string) (path []string, ok bool) {
	switch apiVersion + " " + kind {
	case "v1 Pod":
		return nil, true
	case "v1 PodTemplate":
		return []string{"template"}, true
	case "apps/v1 Deployment", "apps/v1 ReplicaSet", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "batch/v1 Job",
		"v1 ReplicationController", "apps.openshift.io/v1 DeploymentConfig":
		return []string{"spec", "template"}, true
	case "batch/v1 CronJob":
		return []string{"spec", "jobTemplate", "spec", "template"}, true
	}
	return nil, false
}

// rewriteObject rewrites an object, or all objects of a list. apiVersion and kind are those
// of the list for objects that state none. Notes and errors are of different objects.
func rewriteObject(object *yaml.Node, apiVersion, kind string, mutate Mutate) (notes []string, err error) {
	if object.Kind == yaml.AliasNode {
		return nil, aliasError(object)
	}
	apiVersion, kind = cmp.Or(text(object, "apiVersion"), apiVersion), cmp.Or(text(object, "kind"), kind)
	if items, apiVersion, kind, is := list(object, apiVersion, kind); is {
		return rewriteItems(items, apiVersion, kind, mutate)
	}
	path, ok := template(apiVersion, kind)
	objects, bad := objectsIn(object, apiVersion, kind)
	if err := errors.Join(bad...); err != nil || !ok || len(objects) == 0 {
		return nil, err
	}
	name, pod, before := kind+"/"+objects[0].Name, objects[0].pod, objects[0].Pod
	before.Namespace = cmp.Or(before.Namespace, objects[0].Namespace)
	alias := findAlias(object)
	var others map[string]any
	after, notes, err := mutate(before)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for i := range notes {
		notes[i] = name + ": " + notes[i]
	}
	if alias != nil {
		others, err = withoutResources(object, path)
	}
	if err == nil {
		err = write(pod, before, after)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if alias != nil && !asMeant(object, pod, path, after, others) {
		return nil, fmt.Errorf("%s, line %d: an alias or a merge stands for values that change in one place only; write it out", name, alias.Line)
	}
	return notes, nil
}

// rewriteItems rewrites the objects of a list. An item with an alias can have values of another
// item: it is an error if an item changes with another one.
func rewriteItems(items []*yaml.Node, apiVersion, kind string, mutate Mutate) (notes []string, err error) {
	aliased := slices.ContainsFunc(items, func(n *yaml.Node) bool { return findAlias(n) != nil })
	valueOf := func(n *yaml.Node) (v any) {
		if aliased {
			_ = n.Decode(&v) // an item that cannot be read is an error of its own
		}
		return v
	}
	values := make([]any, len(items))
	for i, item := range items {
		values[i] = valueOf(item)
	}
	var errs []error
	same := func(i int) {
		if !reflect.DeepEqual(valueOf(items[i]), values[i]) {
			errs = append(errs, fmt.Errorf("line %d: an alias stands for values that change in one item of the list only; write it out", items[i].Line))
		}
	}
	for i, item := range items {
		same(i)
		more, err := rewriteObject(item, apiVersion, kind, mutate)
		notes, errs = append(notes, more...), append(errs, err)
		values[i] = valueOf(item)
	}
	for i := range items {
		same(i)
	}
	return notes, errors.Join(errs...)
}

// asMeant reports whether an object with aliases has the annotations and resources of a pod after
// they are written, and is the same elsewhere.
func asMeant(object, pod *yaml.Node, path []string, want *corev1.Pod, others map[string]any) bool {
	got, err := decode(pod)
	if err != nil || !maps.Equal(got.Annotations, want.Annotations) {
		return false
	}
	same := func(a, b *corev1.ResourceRequirements) bool {
		if a == nil || b == nil {
			return a == b
		}
		return maps.Equal(Quantities(a.Requests), Quantities(b.Requests)) && maps.Equal(Quantities(a.Limits), Quantities(b.Limits))
	}
	each := func(a, b corev1.Container) bool { return same(&a.Resources, &b.Resources) }
	if !same(got.Spec.Resources, want.Spec.Resources) || !slices.EqualFunc(got.Spec.Containers, want.Spec.Containers, each) ||
		!slices.EqualFunc(got.Spec.InitContainers, want.Spec.InitContainers, each) {
		return false
	}
	now, err := withoutResources(object, path)
	return err == nil && reflect.DeepEqual(now, others)
}

// withoutResources decodes an object without the annotations and the resources of its pods, which
// are at a path.
func withoutResources(object *yaml.Node, path []string) (map[string]any, error) {
	var all map[string]any
	if err := object.Decode(&all); err != nil {
		return nil, err
	}
	inPod := func(fields ...string) []string { return slices.Concat(path, fields) }
	unstructured.RemoveNestedField(all, inPod("metadata", "annotations")...)
	unstructured.RemoveNestedField(all, inPod("spec", "resources")...)
	for _, key := range []string{"initContainers", "containers"} {
		list, _, _ := unstructured.NestedFieldNoCopy(all, inPod("spec", key)...)
		containers, _ := list.([]any)
		for _, c := range containers {
			c, _ := c.(map[string]any)
			delete(c, "resources")
		}
	}
	return all, nil
}

// decode reads metadata and spec of a pod or of a template. It returns the pod with an error if
// only an amount of CPU is impossible or if there are no containers.
func decode(node *yaml.Node) (*corev1.Pod, error) {
	var v map[string]any
	if err := node.Decode(&v); err != nil {
		return nil, err
	}
	delete(v, "status")
	if err := cmp.Or(podAmounts(v), amounts(v)); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	// As the API server reads it: SPEC is no spec.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, pod); err != nil {
		return nil, fmt.Errorf("read as a pod: %w", err)
	}
	if len(pod.Spec.Containers) == 0 {
		return pod, errors.New("spec.containers: is empty; give at least one container")
	}
	return pod, admission.CheckCPU(pod)
}
