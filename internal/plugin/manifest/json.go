package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// isJSON says that a file is JSON and has to stay so.
func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) && json.Valid(data)
}

// encodeJSON writes a document that was JSON, indented as text is.
func encodeJSON(document *yaml.Node, text []byte) ([]byte, error) {
	var line bytes.Buffer
	if err := writeJSON(&line, document.Content[0]); err != nil {
		return nil, err
	}
	indent := jsonIndent(text)
	if indent == "" {
		line.WriteByte('\n')
		return line.Bytes(), nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, line.Bytes(), "", indent); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// jsonIndent is the white space in front of the first member, "" when all is on
// one line.
func jsonIndent(text []byte) string {
	m := regexp.MustCompile(`^\s*\{[ \t\r]*\n([ \t\r\n]*)`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return cmp.Or(strings.Trim(string(m[1]), "\r\n"), "  ")
}

func writeJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode, yaml.SequenceNode:
		brackets := "[]"
		if n.Kind == yaml.MappingNode {
			brackets = "{}"
		}
		out.WriteByte(brackets[0])
		for i, c := range n.Content {
			switch {
			case i > 0 && n.Kind == yaml.MappingNode && i%2 == 1:
				out.WriteByte(':')
			case i > 0:
				out.WriteByte(',')
			}
			if err := writeJSON(out, c); err != nil {
				return err
			}
		}
		out.WriteByte(brackets[1])
		return nil
	case yaml.ScalarNode:
		if n.Tag != "!!str" {
			out.WriteString(n.Value) // a number, true, false or null as it was written
			return nil
		}
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(n.Value); err != nil {
			return err
		}
		out.Truncate(out.Len() - 1) // the encoder's line feed
		return nil
	}
	return fmt.Errorf("line %d: no JSON value", n.Line)
}
