package manifest

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"
)

// part is a piece of a file, most often one document, with the line in front of it
// that starts it.
type part struct {
	text []byte
	// documents are its documents with a mapping. Their nodes have the lines of the
	// file.
	documents []*yaml.Node
}

// read parses a file. The parts are the whole of it, comments and empty documents
// included. Errors of the YAML have the lines of the file.
func read(data []byte) ([]part, error) {
	// First in one piece: the parser alone knows the lines of its errors.
	if _, err := decodeAll(data, 0); err != nil {
		return nil, err
	}
	var parts []part
	line := 0
	for _, text := range split(data) {
		documents, err := decodeAll(text, line)
		if err != nil {
			return nil, err
		}
		documents = slices.DeleteFunc(documents, func(doc *yaml.Node) bool { return doc.Content[0].Kind != yaml.MappingNode })
		parts = append(parts, part{text, documents})
		line += bytes.Count(text, []byte("\n"))
	}
	return parts, nil
}

// split cuts a file in front of the lines that start a document: no document can
// have such a line in it (YAML 1.2, rule c-forbidden). Directives, which stand before
// the line, stay with it.
func split(data []byte) [][]byte {
	var parts [][]byte
	start, directive := 0, false
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := data[at:end]
		switch {
		case line[0] == '%':
			directive = true
		case !startsDocument(line):
		case directive:
			directive = false
		case at > start:
			parts = append(parts, data[start:at])
			start = at
		}
		at = end
	}
	return append(parts, data[start:])
}

func startsDocument(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// decodeAll returns the documents that are not empty, with offset added to their lines.
func decodeAll(data []byte, offset int) ([]*yaml.Node, error) {
	var documents []*yaml.Node
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		if len(doc.Content) == 1 && doc.Content[0].Tag != "!!null" {
			move(&doc, offset)
			documents = append(documents, &doc)
		}
	}
}

func move(n *yaml.Node, lines int) {
	n.Line += lines
	for _, c := range n.Content {
		move(c, lines)
	}
}

// encode writes the documents of a part in uniform indentation. A directive is no longer
// necessary: the parser has applied it.
func (p part) encode() ([]byte, error) {
	var out bytes.Buffer
	if startsDocument(p.text) || p.text[0] == '%' {
		out.WriteString("---\n")
	}
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	for _, doc := range p.documents {
		spellNull(doc, false)
		if err := enc.Encode(doc); err != nil {
			return nil, err
		}
	}
	err := enc.Close()
	if bytes.Contains(p.text, []byte("\r\n")) {
		return bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte("\r\n")), err
	}
	return out.Bytes(), err
}
