package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/spelling"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// decoder fills a Config from YAML nodes, and collects their problems. It uses nodes instead of Go
// types, because a node has its line and its text: to YAML, "cpus: 0x10" and "cpus: 1_0" are numbers.
type decoder struct {
	origins  origins
	problems []error
}

// field is a known key of a mapping, with the function that decodes its value.
type field struct {
	name   string
	decode func(key string, n *yaml.Node)
}

// decode decodes one YAML document, and reports a missing apiVersion or kind. After an error of syntax
// it reports nothing else, because there are no nodes.
func (d *decoder) decode(data []byte, fields []field) {
	const largest = 1 << 20 // a ConfigMap's limit
	if len(data) > largest {
		d.fail("", "", fmt.Sprintf("is %d bytes long; the limit is %d", len(data), largest))
		return
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		d.fail("", "", "is not YAML: "+strings.TrimPrefix(err.Error(), "yaml: "))
		return
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		d.fail("", "", "has more than one YAML document; keep one")
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
		root = doc.Content[0]
	}
	d.mapping("", root, fields)
	for _, required := range []struct{ key, value string }{{"apiVersion", APIVersion}, {"kind", Kind}} {
		if _, ok := d.origins.lines[required.key]; !ok {
			d.fail(required.key, "", "is missing; write "+required.value)
		}
	}
}

// mapping decodes the fields of a mapping. It reports unknown and repeated keys, and decodes all others.
func (d *decoder) mapping(key string, n *yaml.Node, fields []field) {
	n = deref(n)
	if n.Kind != yaml.MappingNode {
		d.fail(key, n.Value, "must be a mapping with the keys "+strings.Join(names(fields), ", "))
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		child := join(key, name)
		f := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		_, seen := d.origins.lines[child]
		switch {
		case f < 0:
			d.unknown(key, n, i, fields)
		case seen:
			d.failAt(n.Content[i].Line, child, n.Content[i+1].Value, "is set twice; keep one")
		default:
			d.origins.lines[child] = n.Content[i].Line
			fields[f].decode(child, deref(n.Content[i+1]))
		}
	}
}

// unknown reports the unknown key at index i of a mapping. If it is misspelt, the value is decoded
// as the value of the key that is meant, so that its problems are reported, too.
func (d *decoder) unknown(key string, n *yaml.Node, i int, fields []field) {
	at, value := n.Content[i], n.Content[i+1]
	meant := spelling.Near(at.Value, names(fields))
	if meant == "" {
		d.failAt(at.Line, join(key, at.Value), value.Value, "is not a known key; known here: "+strings.Join(names(fields), ", "))
		return
	}
	d.failAt(at.Line, join(key, at.Value), value.Value, "is not a known key; did you mean "+meant+"?")
	for j := 0; j < len(n.Content); j += 2 {
		if n.Content[j].Value == meant {
			return
		}
	}
	child := join(key, meant)
	if _, seen := d.origins.lines[child]; seen {
		return
	}
	d.origins.lines[child] = at.Line
	fields[slices.IndexFunc(fields, func(f field) bool { return f.name == meant })].decode(child, deref(value))
}

func (d *decoder) sequence(key string, n *yaml.Node, element func(key string, n *yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		d.fail(key, n.Value, "must be a list")
		return
	}
	for i, e := range n.Content {
		child := fmt.Sprintf("%s[%d]", key, i)
		d.origins.lines[child] = e.Line
		element(child, deref(e))
	}
}

// scalar returns a decode function that passes the text of a scalar to set. An error of set becomes the reason
// of the problem.
func (d *decoder) scalar(set func(text string) error) func(string, *yaml.Node) {
	return func(key string, n *yaml.Node) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			d.fail(key, n.Value, "must be a single value; to get the default, leave the key out")
			return
		}
		if err := set(n.Value); err != nil {
			d.fail(key, n.Value, err.Error())
		}
	}
}

// cpus returns the decode function of a list of CPUs, which is one text. It reports a list of YAML with the
// text to write instead. It also sets these CPUs, so that the overlap with another pool is reported, too.
func (d *decoder) cpus(set func(text string) error) func(string, *yaml.Node) {
	return func(key string, n *yaml.Node) {
		if n.Kind != yaml.SequenceNode {
			d.scalar(set)(key, n)
			return
		}
		var items []string
		for _, item := range n.Content {
			items = append(items, deref(item).Value)
		}
		text, known := "0-3,8", false
		if cpus, err := cpuset.Parse(strings.Join(items, ",")); err == nil && !cpus.IsEmpty() {
			text = cpus.String()
			known = set(text) == nil
		}
		p := d.origins.problem(key, "", fmt.Sprintf("is a list of YAML; write CPUs as one text, such as cpus: %q", text))
		p.known = known
		d.problems = append(d.problems, p)
	}
}

func (d *decoder) fail(key, value, reason string) {
	d.problems = append(d.problems, d.origins.problem(key, value, reason))
}

func (d *decoder) failAt(line int, key, value, reason string) {
	p := d.origins.problem(key, value, reason)
	p.Line = line
	d.problems = append(d.problems, p)
}

// deref follows an alias. The depth of the known keys bounds the decoder's depth, so an
// alias of an enclosing node cannot make it run forever.
func deref(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func names(fields []field) []string {
	all := make([]string, 0, len(fields))
	for _, f := range fields {
		all = append(all, f.name)
	}
	return all
}
