package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// documents parses a file of YAML or JSON. Empty documents are left out.
func documents(data []byte) ([]*yaml.Node, error) {
	var all []*yaml.Node
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := d.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %s", ErrSyntax, strings.TrimPrefix(err.Error(), "yaml: "))
		case len(doc.Content) > 0 && doc.Content[0].Tag != "!!null":
			aliases := 0
			if err := plain(doc.Content[0], &aliases); err != nil {
				return nil, err
			}
			all = append(all, doc.Content[0])
		}
	}
}

// plain refuses what would be read otherwise than Kubernetes reads it, or again and again:
// merge keys, keys that are there twice, many aliases.
func plain(n *yaml.Node, aliases *int) error {
	if n.Kind == yaml.AliasNode {
		if *aliases++; *aliases > 100 {
			return fmt.Errorf("line %d: %w", n.Line, ErrAliases)
		}
		return nil
	}
	keys := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			switch {
			case child.Tag == "!!merge":
				return fmt.Errorf("line %d: %w", child.Line, ErrMerge)
			case child.Kind == yaml.ScalarNode && keys[child.Value]:
				return fmt.Errorf("line %d: key %q %w", child.Line, shorten(child.Value), ErrDuplicate)
			}
			keys[child.Value] = true
		}
		if err := plain(child, aliases); err != nil {
			return err
		}
	}
	return nil
}

type pair struct {
	key   string
	value *yaml.Node
}

// pairs returns the pairs of a mapping; nil for another node.
func pairs(n *yaml.Node) []pair {
	if n = target(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	var all []pair
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, pair{n.Content[i].Value, target(n.Content[i+1])})
	}
	return all
}

// items returns the items of a list; nil for another node.
func items(n *yaml.Node) []*yaml.Node {
	if n = target(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// target follows an alias, which leads to no other.
func target(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// at is what lies at a path of keys, and nil if nothing does. A value of null is nothing.
func at(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		var next *yaml.Node
		for _, p := range pairs(n) {
			if p.key == name {
				next = p.value
			}
		}
		n = next
	}
	if n == nil || n.Tag == "!!null" {
		return nil
	}
	return n
}

// text is a scalar, and whether there is one.
func text(n *yaml.Node, path ...string) (string, bool) {
	n = at(n, path...)
	if n == nil || n.Kind != yaml.ScalarNode {
		return "", false
	}
	return n.Value, true
}

// flag reads a boolean; there is false without one. As Kubernetes' parser (sigs.k8s.io/yaml), Decode
// accepts the words of YAML 1.1, such as on. A text in quotes is no boolean.
func (f *facts) flag(source string, n *yaml.Node) (value, there bool) {
	if n = at(n); n == nil {
		return false, false
	}
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Style&quoted == 0 && n.Decode(&value) == nil {
		return value, true
	}
	f.fail("%s: %q is neither true nor false; write one, without quotes", source, shorten(n.Value))
	return false, false
}
