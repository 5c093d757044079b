// Package document writes the JSON documents of commands: with [] for an empty list, never
// null, so that a reader can iterate without a test.
package document

import (
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// Write writes a document with an indentation of two spaces.
func Write(w io.Writer, v any) error { return encode(w, v, jsontext.WithIndent("  ")) }

// WriteLine writes a document in one line.
func WriteLine(w io.Writer, v any) error { return encode(w, v, nil) }

// encode encodes as encoding/json does, but with empty lists and maps for nil.
func encode(w io.Writer, v any, indent json.Options) error {
	data, err := json.Marshal(v, jsonv1.DefaultOptionsV1(), json.FormatNilSliceAsNull(false), json.FormatNilMapAsNull(false), jsontext.EscapeForHTML(false), indent)
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	return err
}
