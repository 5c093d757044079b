package manifest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
)

// child returns the value of a mapping's key; nil if the key is missing or the value is
// null.
func child(mapping *yaml.Node, key string) *yaml.Node {
	i := index(mapping, key)
	if i < 0 {
		return nil
	}
	value := target(target(mapping).Content[i+1])
	if value.Tag == "!!null" {
		return nil
	}
	return value
}

// target returns the node that an alias stands for, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// merged returns the mapping of a key that a mapping has by a merge (<<), or nil.
func merged(mapping *yaml.Node, key string) *yaml.Node {
	i := index(mapping, "<<")
	if i < 0 {
		return nil
	}
	from := target(mapping.Content[i+1])
	all := []*yaml.Node{from}
	if from.Kind == yaml.SequenceNode {
		all = from.Content
	}
	for _, m := range all {
		if value := child(target(m), key); value != nil && value.Kind == yaml.MappingNode {
			return value
		}
	}
	return nil
}

// index returns the place of a key in a mapping; -1 without the key.
func index(mapping *yaml.Node, key string) int {
	mapping = target(mapping)
	if mapping == nil || mapping.Kind != yaml.MappingNode {
		return -1
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func text(mapping *yaml.Node, key string) string {
	if n := child(mapping, key); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// spellNull writes null for a value that is null because it is absent, as in {a}. Between braces,
// the encoder would write an empty string.
func spellNull(n *yaml.Node, braces bool) {
	braces = braces || n.Style&yaml.FlowStyle != 0
	if braces && n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Value == "" {
		n.Value = "null"
	}
	for _, c := range n.Content {
		spellNull(c, braces)
	}
}

// findAlias returns a node whose content is written elsewhere: an alias, or a merge key.
// Keys behind it cannot be changed.
func findAlias(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode || n.Tag == "!!merge" {
		return n
	}
	for _, c := range n.Content {
		if alias := findAlias(c); alias != nil {
			return alias
		}
	}
	return nil
}

// write changes the annotations of a pod, its resources and its containers' resources
// from before to after.
func write(pod *yaml.Node, before, after *corev1.Pod) error {
	if err := writeMap(pod, before.Annotations, after.Annotations, "metadata", "annotations"); err != nil {
		return err
	}
	for _, list := range []struct {
		key           string
		before, after []corev1.Container
	}{
		{"initContainers", before.Spec.InitContainers, after.Spec.InitContainers},
		{"containers", before.Spec.Containers, after.Spec.Containers},
	} {
		nodes := child(child(pod, "spec"), list.key)
		if nodes == nil {
			continue
		}
		if len(nodes.Content) != len(list.before) || len(nodes.Content) != len(list.after) {
			return errors.New("containers were added or removed; only their resources can be written")
		}
		for i, node := range nodes.Content {
			if err := writeResources(node, &list.before[i].Resources, &list.after[i].Resources); err != nil {
				return err
			}
		}
	}
	spec := child(pod, "spec")
	if spec == nil || before.Spec.Resources == nil || after.Spec.Resources == nil {
		return nil
	}
	return writeResources(spec, before.Spec.Resources, after.Spec.Resources)
}

func writeResources(at *yaml.Node, before, after *corev1.ResourceRequirements) error {
	if err := writeMap(at, Quantities(before.Requests), Quantities(after.Requests), "resources", "requests"); err != nil {
		return err
	}
	return writeMap(at, Quantities(before.Limits), Quantities(after.Limits), "resources", "limits")
}

// Quantities returns the texts of a list of resources by name.
func Quantities(list corev1.ResourceList) map[string]string {
	texts := make(map[string]string, len(list))
	for name, q := range list {
		texts[string(name)] = q.String()
	}
	return texts
}

// writeMap writes the differences of two maps into the mapping at a path, which is
// created if it is missing. It removes mappings that become empty.
func writeMap(at *yaml.Node, before, after map[string]string, path ...string) error {
	if maps.Equal(before, after) {
		return nil
	}
	at = target(at)
	parents := []*yaml.Node{at}
	for _, key := range path {
		i := index(at, key)
		if merged := merged(at, key); i < 0 && merged != nil {
			at = merged
			parents = append(parents, at)
			continue
		}
		if i < 0 {
			at.Content = append(at.Content, scalar(key), &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"})
			i = len(at.Content) - 2
		}
		if at.Content[i+1].Tag == "!!null" {
			at.Content[i+1] = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		}
		if at = target(at.Content[i+1]); at.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: %s is no mapping", at.Line, key)
		}
		parents = append(parents, at)
	}
	for key := range before {
		if _, stays := after[key]; !stays {
			drop(at, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		old, had := before[key]
		switch i := index(at, key); {
		case had && old == after[key]:
		case i >= 0:
			comment := at.Content[i+1].LineComment
			at.Content[i+1] = scalar(after[key])
			at.Content[i+1].LineComment = comment
		default:
			at.Content = append(at.Content, scalar(key), scalar(after[key]))
		}
	}
	if last := len(at.Content) - 2; last >= 0 {
		at.Content[last].FootComment, at.FootComment = comments(at.Content[last].FootComment, at.FootComment), ""
	}
	for i := len(path) - 1; i >= 0 && len(parents[i+1].Content) == 0; i-- {
		drop(parents[i], path[i])
	}
	return nil
}

// drop removes a key. A comment below it stays: it can be about more than this key.
func drop(mapping *yaml.Node, key string) {
	i := index(mapping, key)
	if i < 0 {
		return
	}
	foot := comments(mapping.Content[i].FootComment, mapping.Content[i+1].FootComment)
	mapping.Content = slices.Delete(mapping.Content, i, i+2)
	switch {
	case i >= 2:
		mapping.Content[i-2].FootComment = comments(mapping.Content[i-2].FootComment, foot)
	case len(mapping.Content) > 0:
		mapping.Content[0].HeadComment = comments(foot, mapping.Content[0].HeadComment)
	default:
		mapping.FootComment = comments(mapping.FootComment, foot)
	}
}

// comments joins two comments, of which each may be empty.
func comments(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// scalar is a string; the encoder quotes it where it would be read as something else.
func scalar(value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
}
