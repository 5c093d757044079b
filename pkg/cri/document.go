package cri

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The document of a verbose status contains the environment of a container more than once: in the
// configuration and in the OCI spec. The author of a pod chooses its size, and JSON takes six
// bytes for some characters. So the client decodes the document from the pieces in which gRPC
// received it, and skips all fields that info does not have.

// notJSON is the begin of the result of trimDocument for a document that cannot be decoded. The path
// of the field follows, then notJSON again and the error.
const notJSON = "!"

// trimDocument returns the document with the fields of info only.
func trimDocument(from io.Reader) []byte {
	var i info
	// Without a list of the names in each object, whose number the author of a pod chooses.
	err := json.UnmarshalRead(from, &i, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var doc []byte
	if err == nil {
		doc, err = json.Marshal(i, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		field := ""
		if wrong, is := errors.AsType[*json.SemanticError](err); is {
			field = strings.ReplaceAll(strings.TrimPrefix(string(wrong.JSONPointer), "/"), "/", ".")
		}
		return []byte(notJSON + field + notJSON + err.Error())
	}
	return doc
}

// environment holds the variable OPENSHIFT_SHARED_CPUS of an environment: the last one, because no
// other counts.
type environment []string

// UnmarshalJSONFrom keeps one string of the list in memory at a time.
func (e *environment) UnmarshalJSONFrom(from *jsontext.Decoder) error {
	if from.PeekKind() != '[' {
		return json.UnmarshalDecode(from, (*[]string)(e))
	}
	_, err := from.ReadToken()
	var variable []byte
	for err == nil && from.PeekKind() != ']' {
		var quoted jsontext.Value
		if quoted, err = from.ReadValue(); err != nil {
			return err
		}
		if quoted.Kind() != '"' {
			return errors.New("a variable is not a string")
		}
		variable, _ = jsontext.AppendUnquote(variable[:0], quoted) // invalid UTF-8 is replaced
		if bytes.HasPrefix(variable, []byte(SharedCPUsVariable+"=")) {
			*e = environment{string(variable)}
		}
	}
	if err == nil {
		_, err = from.ReadToken()
	}
	return err
}
