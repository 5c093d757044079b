package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/layout"
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

// object is a document of a kind that a configuration takes once, or in a few parts that
// belong together.
type object struct {
	file string // and the place in it
	name string // metadata.name; CPU-Pooler: the key in the ConfigMap
	keys string // where the keys are in the object
	// about describes the object in messages; it starts with a blank.
	about string
	doc   *yaml.Node
}

// String names it for people.
func (o object) String() string {
	if o.name == "" || strings.HasSuffix(o.file, ": "+o.name) {
		return o.file + o.about
	}
	return shorten(o.name) + " in " + o.file + o.about
}

// inside returns the name of the object's file, without the names of outer files and
// without the object's number.
func (o object) inside() string {
	file := o.file[strings.LastIndex(o.file, ": ")+1:]
	if i := strings.LastIndexByte(file, '['); i > 0 && strings.HasSuffix(file, "]") {
		file = file[:i]
	}
	return strings.TrimSpace(file)
}

// dropIn returns the file of a drop-in of a kubelet, which is *.conf in a directory such as
// kubelet.conf.d, and "" for the kubelet's own file.
func (o object) dropIn() string {
	file := o.inside()
	if path.Ext(file) == ".conf" && path.Ext(path.Dir(file)) == ".d" {
		return file
	}
	return ""
}

// mostNames is the number of objects that a message names.
const mostNames = 10

// one returns the object of a kind that a flag names, or the only object.
func (f *facts) one(kind, flag, meant string, all []object) (object, bool) {
	var names []string
	for _, o := range all {
		if meant != "" && o.name == meant {
			return o, true
		}
		names = append(names, o.String())
	}
	switch {
	case meant != "" && len(all) == 0:
		f.fail("there is no %s %q in these files", kind, shorten(meant))
	case meant != "":
		f.fail("there is no %s %q in these files; there are %s", kind, shorten(meant), layout.Few(names, mostNames))
	case len(all) > 1:
		f.fail("%s: there are %d, and a node has one; name it with %s: %s", kind, len(all), flag, layout.Few(names, mostNames))
	case len(all) == 1:
		return all[0], true
	}
	return object{}, false
}
