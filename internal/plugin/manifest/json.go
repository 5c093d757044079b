package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// encodeJSON writes a document that was JSON, indented as text is.
func encodeJSON(document *yaml.Node, text []byte) ([]byte, error) {
	options := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.EscapeForJS(true)}
	if indent := jsonIndent(text); indent != "" {
		options = append(options, jsontext.WithIndent(indent))
	}
	var out bytes.Buffer
	err := writeJSON(jsontext.NewEncoder(&out, options...), document.Content[0])
	return out.Bytes(), err
}

// jsonIndent is the white space in front of the first member, "" when all is on
// one line.
func jsonIndent(text []byte) string {
	m := regexp.MustCompile(`^\s*\{[ \t\r]*\n([ \t\r\n]*)`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return cmp.Or(string(m[1][bytes.LastIndexAny(m[1], "\r\n")+1:]), "  ")
}

func writeJSON(out *jsontext.Encoder, n *yaml.Node) error {
	begin, end := jsontext.BeginArray, jsontext.EndArray
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		return out.WriteToken(jsontext.String(n.Value))
	case n.Kind == yaml.ScalarNode:
		return out.WriteValue(jsontext.Value(n.Value)) // a number, true, false or null as it was written
	case n.Kind == yaml.MappingNode:
		begin, end = jsontext.BeginObject, jsontext.EndObject
	case n.Kind != yaml.SequenceNode:
		return fmt.Errorf("line %d: no JSON value", n.Line)
	}
	err := out.WriteToken(begin)
	for _, c := range n.Content {
		err = cmp.Or(err, writeJSON(out, c))
	}
	return cmp.Or(err, out.WriteToken(end))
}
