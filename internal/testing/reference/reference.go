// Package reference writes the pages that list the keys of a configuration file, and compares
// them with the code that reads such a file: it tries the defaults, and loads the examples.
// Only tests import it.
package reference

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Entry describes one key on a page.
type Entry struct {
	// Key is written as in partitions[].cpus and units.<unit>.cpus.
	Key string
	// Value describes the permitted values, with unit and bounds.
	Value string
	// Default is the value that stands for the key where it is left out. In parentheses it is
	// a description of what happens then; it is empty for a key that must be there.
	Default string
	// Text is the meaning of the key, in sentences.
	Text string
	// Example is a part of a file, one key at the top in each line.
	Example string
	// Restart is true if the key is read only at the start.
	Restart bool
}

// Page is a page of the reference.
type Page struct {
	// Title is the heading of the page and the name of the manual's.
	Title string
	// Head holds the paragraphs before the keys.
	Head []string
	// Header is what every file begins with.
	Header string
	// Parse reads a file as the program does, and returns what comparable values it has.
	Parse   func(text string) (any, error)
	Entries []Entry
}

// Check returns what is wrong with entries: keys without a meaning, a value or an example, defaults
// that are others, and examples that the program does not load or that change nothing.
func (p *Page) Check(keys []string) (problems []error) {
	wrong := func(e Entry, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", e.Key, fmt.Sprintf(format, args...)))
	}
	seen := make(map[string]bool)
	for _, e := range p.Entries {
		if seen[e.Key] {
			wrong(e, "occurs twice")
		}
		seen[e.Key] = true
		if !slices.Contains(keys, e.Key) {
			wrong(e, "is no key of the program's")
		}
		if e.Text == "" || e.Value == "" || e.Example == "" {
			wrong(e, "has the meaning %q, the value %q and the example %q; all of them are needed", e.Text, e.Value, e.Example)
			continue
		}
		if err := p.try(e); err != nil {
			wrong(e, "%v", err)
		}
	}
	for _, key := range keys {
		if !seen[key] {
			problems = append(problems, fmt.Errorf("%s: has no entry", key))
		}
	}
	return problems
}

// try loads the example, the example without the key, and the example with the key's default.
func (p *Page) try(e Entry) error {
	if slices.Contains([]string{"apiVersion", "kind"}, e.Key) {
		_, err := p.Parse(p.Header)
		return err
	}
	example, err := p.load(e.Example)
	if err != nil {
		return fmt.Errorf("example: %w", err)
	}
	text, err := rewrite(e.Example, e.Key, nil)
	if err != nil {
		return err
	}
	without, err := p.load(text)
	switch {
	case e.Default == "" && err == nil:
		return fmt.Errorf("must not be left out, and without it this is loaded: %s", text)
	case e.Default == "":
		return nil
	case err != nil:
		return fmt.Errorf("example without it: %w", err)
	case reflect.DeepEqual(example, without):
		return fmt.Errorf("its example is its default: %s", e.Example)
	case strings.HasPrefix(e.Default, "("):
		return nil
	}
	if text, err = rewrite(e.Example, e.Key, &e.Default); err != nil {
		return err
	}
	explicit, err := p.load(text)
	if err != nil {
		return fmt.Errorf("default: %w", err)
	}
	if !reflect.DeepEqual(explicit, without) {
		return fmt.Errorf("the default is not %s", e.Default)
	}
	return nil
}

// load returns the decoded content of a file, without types.
func (p *Page) load(text string) (any, error) {
	c, err := p.Parse(p.Header + text + "\n")
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var v any
	return v, json.Unmarshal(data, &v)
}

// rewrite returns a part of a file with another value of a key, or without the key.
func rewrite(text, key string, value *string) (string, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return "", err
	}
	at := doc.Content[0]
	names := strings.Split(strings.ReplaceAll(key, "[]", ".[]"), ".")
	for i, name := range names {
		if name == "[]" {
			if at.Kind != yaml.SequenceNode || len(at.Content) == 0 {
				return "", fmt.Errorf("the example has no %s", key)
			}
			at = at.Content[0]
			continue
		}
		found := -1
		for j := 0; j+1 < len(at.Content); j += 2 {
			if at.Content[j].Value == name || strings.HasPrefix(name, "<") {
				found = j
				break
			}
		}
		switch {
		case found < 0:
			return "", fmt.Errorf("the example has no %s", key)
		case i < len(names)-1:
			at = at.Content[found+1]
		case value == nil:
			at.Content = slices.Delete(at.Content, found, found+2)
		default:
			at.Content[found+1] = &yaml.Node{Kind: yaml.ScalarNode, Value: *value}
		}
	}
	if len(doc.Content[0].Content) == 0 {
		return "", nil
	}
	out, err := yaml.Marshal(&doc)
	return string(out), err
}
