package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"
)

// Object is an object of a file.
type Object struct {
	APIVersion, Kind, Namespace, Name string
	// Annotations and Labels are the object's own; the pods of a workload do not get them.
	Annotations, Labels map[string]string
	// Pod is the pod, or the template of a workload's pods; nil for objects that make
	// none.
	Pod *corev1.Pod
	// PodPath is the path to the pod's metadata and spec, such as "spec.template."; ""
	// for a pod.
	PodPath string
	// Shaped is true if the kind is not known, and a part of the object has the shape of a pod
	// template. An object with several templates is there once for each.
	Shaped bool
	// templated is true if an amount of the pod is the variable of a template. There is no Pod then.
	templated bool
	node, pod *yaml.Node
}

// Objects returns the objects of a YAML or JSON file, those in Lists on their own.
// A document that is no object has no kind. An object that cannot be read is an error with its
// line or name, and the other objects are returned.
func Objects(data []byte) ([]Object, []error) {
	documents, err := decodeAll(data, 0)
	if err != nil {
		return nil, []error{err}
	}
	return objectsOf(documents, "", "")
}

// objectsOf returns the objects of documents, or of the items of a list.
func objectsOf(nodes []*yaml.Node, apiVersion, kind string) (objects []Object, errs []error) {
	for _, node := range nodes {
		if node.Kind == yaml.DocumentNode {
			node = node.Content[0]
		}
		more, bad := objectsIn(node, apiVersion, kind)
		objects, errs = append(objects, more...), append(errs, bad...)
	}
	return objects, errs
}

// objectsIn returns an object, or the objects of a list. An item of a list of one kind
// may omit apiVersion and kind: they are the list's.
func objectsIn(node *yaml.Node, apiVersion, kind string) (objects []Object, errs []error) {
	switch {
	case node.Kind == yaml.AliasNode:
		return nil, []error{aliasError(node)}
	case node.Tag == "!!null": // an item of a list
		return nil, nil
	}
	o := Object{APIVersion: cmp.Or(text(node, "apiVersion"), apiVersion), Kind: cmp.Or(text(node, "kind"), kind), node: node}
	metadata := child(node, "metadata")
	o.Namespace, o.Name = text(metadata, "namespace"), text(metadata, "name")
	if items, apiVersion, kind, is := list(node, o.APIVersion, o.Kind); is {
		return objectsOf(items, apiVersion, kind)
	}
	if o.Kind == "" {
		return []Object{o}, nil
	}
	if err := cmp.Or(checkKind(o.APIVersion, o.Kind), checkBounds(o.APIVersion, o.Kind, node)); err != nil {
		return nil, []error{o.failed(err)}
	}
	var own struct {
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	}
	err := decodeInto(metadata, &own)
	o.Annotations, o.Labels = own.Annotations, own.Labels
	path, makesPods := template(o.APIVersion, o.Kind)
	if makesPods && err == nil {
		o.pod, o.PodPath = at(node, path), prefix(path)
		if o.pod == nil {
			err = fmt.Errorf("no %s; it makes no pods as it is", strings.TrimSuffix(o.PodPath, "."))
		} else {
			o.Pod, err = decode(o.pod)
		}
		err = cmp.Or(err, checkNumbers(node, path))
	}
	if !makesPods && err == nil {
		for _, path := range shapes(node) {
			shaped := o
			shaped.pod, shaped.PodPath, shaped.Shaped = at(node, path), prefix(path), true
			shaped.Pod, err = decode(shaped.pod)
			bad, isAmount := errors.AsType[*badAmount](err)
			switch {
			case err == nil:
				objects = append(objects, shaped)
			case isAmount && bad.isTemplated():
				skipped := o
				skipped.templated = true
				objects = append(objects, skipped)
			case isAmount || shaped.Pod != nil:
				errs = append(errs, o.failed(err))
			} // otherwise it only looks like a template
		}
		if len(objects)+len(errs) > 0 {
			return objects, errs
		}
		err = nil
	}
	if err != nil {
		return nil, []error{o.failed(err)}
	}
	return []Object{o}, nil
}

func (o Object) failed(err error) error {
	return fmt.Errorf("line %d: %s: %w", o.node.Line, o.Kind+"/"+o.Name, err)
}

// prefix returns a path in front of the name of a field.
func prefix(path []string) string { return strings.Join(append(slices.Clip(path), ""), ".") }

// list returns the items of a list, and the version and kind that they have where they
// say nothing: a v1 List is one of all kinds, a DeploymentList of Deployments.
func list(node *yaml.Node, apiVersion, kind string) (items []*yaml.Node, itemVersion, itemKind string, is bool) {
	of, is := strings.CutSuffix(kind, "List")
	if !is {
		return nil, "", "", false
	}
	if of == "" {
		apiVersion = ""
	}
	if i := index(node, "items"); i >= 0 {
		switch all := node.Content[i+1]; all.Kind {
		case yaml.SequenceNode:
			items = all.Content
		case yaml.AliasNode:
			items = []*yaml.Node{all}
		}
	}
	return items, apiVersion, of, true
}

// aliasError returns the error of a list with an alias instead of an item or of all items. An
// alias of the list itself would have no end.
func aliasError(alias *yaml.Node) error {
	return fmt.Errorf("line %d: an alias stands for items of a list; write it out", alias.Line)
}

// Decode reads the object as one of its kind of the API, with the names of the
// API's JSON.
func (o Object) Decode(into any) error { return decodeInto(o.node, into) }

// Unknown returns the paths of the fields that a type of the API does not have. It returns no path if the object is
// not of the type.
func (o Object) Unknown(of any) (paths []string) {
	data, err := jsonOf(o.node)
	if err != nil {
		return nil
	}
	errs, err := kjson.UnmarshalStrict(data, of, kjson.DisallowUnknownFields)
	if err != nil {
		return nil
	}
	for _, e := range errs {
		if path, found := strings.CutPrefix(e.Error(), "unknown field "); found {
			paths = append(paths, strings.Trim(path, `"`))
		}
	}
	return paths
}

// decodeInto reads a value. A missing value leaves into unchanged.
func decodeInto(node *yaml.Node, into any) error {
	if node == nil {
		return nil
	}
	data, err := jsonOf(node)
	if err != nil {
		return err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, into); err != nil {
		text := strings.TrimPrefix(err.Error(), "json: ")
		if field, of, found := strings.Cut(text, " of type "); found && strings.Contains(of, "struct {") {
			text = field // the type of Go is long
		}
		return errors.New(text)
	}
	return nil
}

// jsonOf returns the JSON of a value.
func jsonOf(node *yaml.Node) ([]byte, error) {
	var v any
	if err := node.Decode(&v); err != nil {
		return nil, err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return data, amounts(v)
}

// Replicas returns the number of pods of a workload at one time. A DaemonSet has one on each node. The
// error is of a number that cannot be read.
func (o *Object) Replicas() (int, error) {
	var k struct {
		Spec struct {
			Replicas    *int `json:"replicas"`
			Parallelism *int `json:"parallelism"`
		} `json:"spec"`
	}
	if o.Shaped || o.Kind == "DaemonSet" || o.Kind == "CronJob" {
		return 1, nil
	}
	err := o.Decode(&k)
	if o.Kind == "Job" {
		k.Spec.Replicas = k.Spec.Parallelism
	}
	return ptr.Deref(k.Spec.Replicas, 1), err
}

// Line returns the line of what a path of keys leads to, and of the last of them
// that is there. An item of a list is found by its name, or by its place, from 0 on.
func (o Object) Line(path ...string) int { return line(o.node, path) }

// PodLine is Line, from the pod on. There must be one.
func (o Object) PodLine(path ...string) int { return line(o.pod, path) }

func line(at *yaml.Node, path []string) int {
	found := at.Line
	for _, key := range path {
		next := at
		switch i := index(at, key); {
		case i >= 0:
			found, next = at.Content[i].Line, at.Content[i+1]
		case at.Kind == yaml.SequenceNode:
			for i, item := range at.Content {
				if text(item, "name") == key || strconv.Itoa(i) == key {
					found, next = item.Line, item
					break
				}
			}
		}
		if next == at {
			return found
		}
		at = next
	}
	return found
}

// Each calls f with the objects of a YAML or JSON file, and with the errors of the objects that
// it cannot read, as [Objects] returns both. It decodes one item of a JSON list at a time: the
// list of the pods of a cluster can have hundreds of megabytes. It ends when f returns false.
func Each(data []byte, f func([]Object, []error) bool) {
	var all struct {
		APIVersion string            `json:"apiVersion"`
		Kind       string            `json:"kind"`
		Items      []json.RawMessage `json:"items"`
	}
	isJSON := bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && kjson.UnmarshalCaseSensitivePreserveInts(data, &all) == nil
	if !isJSON || !strings.HasSuffix(all.Kind, "List") {
		f(Objects(data))
		return
	}
	kind := strings.TrimSuffix(all.Kind, "List")
	if kind == "" {
		all.APIVersion = ""
	}
	line, at := 0, 0
	for _, item := range all.Items {
		start := at + max(bytes.Index(data[at:], item), 0)
		line += bytes.Count(data[at:start], []byte("\n"))
		at = start + len(item)
		documents, err := decodeAll(item, line)
		objects, errs := objectsOf(documents, all.APIVersion, kind)
		if err != nil {
			errs = []error{fmt.Errorf("item in line %d: %w", line+1, err)}
		}
		if !f(objects, errs) {
			return
		}
		line += bytes.Count(item, []byte("\n"))
	}
}
