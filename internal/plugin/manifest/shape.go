package manifest

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Bounds of the search for templates in an object of an unknown kind.
const (
	maxDepth     = 8
	maxTemplates = 16
)

// shapes returns the paths to the mappings of an object that have the shape of a pod template:
// spec.containers is a list of containers with name and image. The object itself is no template.
func shapes(object *yaml.Node) (paths [][]string) {
	var walk func(at *yaml.Node, path []string)
	walk = func(at *yaml.Node, path []string) {
		if len(path) > 0 && hasContainers(child(at, "spec")) {
			if len(paths) < maxTemplates {
				paths = append(paths, path)
			}
			return
		}
		if len(path) == maxDepth {
			return
		}
		for i, next := range at.Content {
			switch {
			case at.Kind == yaml.SequenceNode:
				walk(next, append(slices.Clip(path), strconv.Itoa(i)))
			case at.Kind == yaml.MappingNode && i%2 == 1:
				walk(next, append(slices.Clip(path), at.Content[i-1].Value))
			}
		}
	}
	walk(object, nil)
	return paths
}

// hasContainers reports whether a mapping has a list of containers.
func hasContainers(spec *yaml.Node) bool {
	list := child(spec, "containers")
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return false
	}
	for _, c := range list.Content {
		if text(c, "image") == "" || len(validation.IsDNS1123Label(text(c, "name"))) > 0 {
			return false
		}
	}
	return true
}

// at returns the node that a path of keys and places leads to, or nil.
func at(node *yaml.Node, path []string) *yaml.Node {
	for _, key := range path {
		if node != nil && node.Kind == yaml.SequenceNode {
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(node.Content) {
				return nil
			}
			node = node.Content[i]
			continue
		}
		node = child(node, key)
	}
	return node
}
