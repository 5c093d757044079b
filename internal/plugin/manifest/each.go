package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Each calls f with the objects of a YAML or JSON file, and with the errors of the objects that
// it cannot read, as [Objects] returns both. It decodes one item of a JSON list at a time: the
// list of the pods of a cluster can have hundreds of megabytes. It ends when f returns false.
func Each(data []byte, f func([]Object, []error) bool) {
	all, isList := jsonList(data)
	if !isList {
		f(Objects(data))
		return
	}
	kind := strings.TrimSuffix(all.Kind, "List")
	if kind == "" {
		all.APIVersion = ""
	}
	line, at := 0, 0
	for _, item := range all.Items {
		start := at + max(bytes.Index(data[at:], item), 0)
		line += bytes.Count(data[at:start], []byte("\n"))
		at = start + len(item)
		documents, err := decodeAll(item, line)
		objects, errs := objectsOf(documents, all.APIVersion, kind)
		if err != nil {
			errs = []error{fmt.Errorf("item in line %d: %w", line+1, err)}
		}
		if !f(objects, errs) {
			return
		}
		line += bytes.Count(item, []byte("\n"))
	}
}

type listDocument struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// jsonList returns a list, and whether the data are one as JSON.
func jsonList(data []byte) (l listDocument, isList bool) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return l, false
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(data, &l)
	return l, err == nil && strings.HasSuffix(l.Kind, "List")
}
