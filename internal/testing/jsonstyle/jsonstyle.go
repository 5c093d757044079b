// Package jsonstyle checks the keys of JSON documents by their types. Only tests import it.
package jsonstyle

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// camelCase is the style of keys.
var camelCase = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)

// Check reports keys of the documents that are not camelCase, and fields that can be null:
// pointers and interfaces without omitempty or omitzero. A list is never null, because
// internal/document writes it.
func Check(t *testing.T, documents ...any) {
	t.Helper()
	seen := map[reflect.Type]bool{}
	for _, d := range documents {
		check(t, reflect.TypeOf(d), seen)
	}
}

func check(t *testing.T, typ reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if seen[typ] || typ.Implements(reflect.TypeFor[json.Marshaler]()) || typ.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return
	}
	seen[typ] = true
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		check(t, typ.Elem(), seen)
	case reflect.Struct:
		for f := range typ.Fields() {
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() && !f.Anonymous || key == "-" {
				continue
			}
			if !f.Anonymous || key != "" {
				if name := key; !camelCase.MatchString(name) {
					t.Errorf("%s.%s: key %q; want camelCase", typ, f.Name, name)
				}
				if k := f.Type.Kind(); (k == reflect.Pointer || k == reflect.Interface) && !strings.Contains(options, "omit") {
					t.Errorf("%s.%s can be null: add omitempty", typ, f.Name)
				}
			}
			check(t, f.Type, seen)
		}
	}
}
