package webhook

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// unknown finds the unknown keys of a YAML document.
type unknown struct {
	seen     map[visit]bool // an alias can stand for a node that has the alias
	problems []error
}

// visit is a node that is decoded into a type.
type visit struct {
	node *yaml.Node
	of   reflect.Type
}

// correct reports the unknown keys of a node that is decoded into a type. A misspelt key gets the
// name that is meant, so that the problems of its value are reported, too. Other unknown keys are
// removed.
func (k *unknown) correct(path string, n *yaml.Node, t reflect.Type) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if k.seen[visit{n, t}] {
		return
	}
	k.seen[visit{n, t}] = true
	switch {
	case n.Kind == yaml.DocumentNode:
		for _, root := range n.Content {
			k.correct(path, root, t)
		}
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for i, item := range n.Content {
			k.correct(fmt.Sprintf("%s[%d]", strings.TrimSuffix(path, "."), i)+".", item, t.Elem())
		}
	case n.Kind == yaml.SequenceNode: // of mappings that are merged
		for _, item := range n.Content {
			k.correct(path, item, t)
		}
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		k.mapping(path, n, t)
	}
}

// mapping is correct for a mapping and a struct.
func (k *unknown) mapping(path string, n *yaml.Node, t reflect.Type) {
	var known, written []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		known = append(known, name)
	}
	for i := 0; i < len(n.Content); i += 2 {
		written = append(written, n.Content[i].Value)
	}
	var kept []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!merge" {
			kept = append(kept, key, value)
			k.correct(path, value, t)
			continue
		}
		at := slices.Index(known, key.Value)
		if at < 0 {
			meant := spelling.Near(key.Value, known)
			remedy := "known here: " + strings.Join(known, ", ")
			if meant != "" {
				remedy = "did you mean " + meant + "?"
			}
			k.problems = append(k.problems, fmt.Errorf("line %d: %s%s: %q: is not a known key; %s", key.Line, path, key.Value, value.Value, remedy))
			if meant == "" || slices.Contains(written, meant) {
				continue
			}
			written = append(written, meant)
			at = slices.Index(known, meant)
			key = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: meant, Line: key.Line}
		}
		kept = append(kept, key, value)
		k.correct(path+key.Value+".", value, t.Field(at).Type)
	}
	n.Content = kept
}
