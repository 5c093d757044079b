package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cpupoold/cpupoold/internal/layout"
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
	known := names(fields)
	var written []string
	for i := 0; i < len(n.Content); i += 2 {
		written = append(written, n.Content[i].Value)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, value, name := n.Content[i], n.Content[i+1], n.Content[i].Value
		if !slices.Contains(known, name) {
			reason := "is not a known key; known here: " + strings.Join(known, ", ")
			if name = spelling.Near(at.Value, known); name != "" {
				reason = "is not a known key; did you mean " + name + "?"
			}
			d.failAt(at.Line, join(key, at.Value), value.Value, reason)
			// The value of a misspelt key is decoded as the value of the key that is meant, so that its
			// problems are reported, too.
			if _, seen := d.origins.lines[join(key, name)]; seen || name == "" || slices.Contains(written, name) {
				continue
			}
		}
		child := join(key, name)
		if _, seen := d.origins.lines[child]; seen {
			d.failAt(at.Line, child, value.Value, "is set twice; keep one")
			continue
		}
		d.origins.lines[child] = at.Line
		fields[slices.Index(known, name)].decode(child, deref(value))
	}
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

// Problem is one rejected setting.
type Problem struct {
	// File is the path that Load has received, or the flag ("flag --log-level").
	File string
	// Line is the line of the key, or of the closest parent key in the file. It is 0
	// without such a line.
	Line int
	// Key is the path of the setting, like "partitions[0].cpus"; empty for a
	// problem of the whole file.
	Key string
	// Value is the rejected value, shortened if it is long.
	Value string
	// Reason states the fault and the remedy.
	Reason string

	flag  bool // File is a flag
	known bool // the setting has a value in spite of the problem
}

// Error returns one line: file:line: key: "value": reason.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	if p.Value != "" {
		b.WriteString(": " + strconv.Quote(p.Value))
	}
	return b.String() + ": " + p.Reason
}

// origins holds the source of each setting. A setting without a source is a default. Its
// problems name the file that could change it.
type origins struct {
	file  string
	lines map[string]int    // by key
	flags map[string]string // flag name by key
}

func (o origins) problem(key, value, reason string) *Problem {
	p := &Problem{File: o.file, Key: key, Value: layout.Clip(value, 64), Reason: reason}
	if flag, ok := o.flags[key]; ok {
		p.File, p.flag = "flag --"+flag, true
		return p
	}
	for k := key; p.Line == 0 && k != ""; k = parentKey(k) {
		p.Line = o.lines[k]
	}
	return p
}

func (o origins) has(key string) bool {
	_, file := o.lines[key]
	_, flag := o.flags[key]
	return file || flag
}

// parentKey cuts the last element off "partitions[0].cpus".
func parentKey(key string) string {
	return key[:max(strings.LastIndexAny(key, ".["), 0)]
}

// IsFromFlag reports whether an error of [Load] has a problem with the value of a flag.
func IsFromFlag(err error) bool {
	return slices.ContainsFunc(Flatten(err), func(e error) bool {
		p, ok := errors.AsType[*Problem](e)
		return ok && p.flag
	})
}
