// Package document writes the JSON documents of commands: with [] for an empty list, never
// null, so that a reader can iterate without a test.
package document

import (
	"encoding"
	"encoding/json"
	"io"
	"reflect"
	"strings"
)

// Write writes a document with an indentation of two spaces.
func Write(w io.Writer, v any) error { return encode(w, v, "  ") }

// WriteLine writes a document in one line.
func WriteLine(w io.Writer, v any) error { return encode(w, v, "") }

func encode(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	return e.Encode(filled(reflect.ValueOf(v)).Interface())
}

// filled returns a copy of a value with empty slices and maps for nil, except in omitted
// fields and in types that encode themselves.
func filled(v reflect.Value) reflect.Value {
	if encodesItself(v.Type()) {
		return v
	}
	to := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		to.Set(reflect.New(v.Type().Elem()))
		to.Elem().Set(filled(v.Elem()))
	case reflect.Interface:
		if v.IsNil() {
			return v
		}
		to.Set(filled(v.Elem()))
	case reflect.Slice:
		to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			to.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Array:
		for i := range v.Len() {
			to.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Map:
		to.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			to.SetMapIndex(key, filled(value))
		}
	case reflect.Struct:
		to.Set(v)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && (!v.Field(i).IsZero() || !strings.Contains(options, "omit")) {
				to.Field(i).Set(filled(v.Field(i)))
			}
		}
	default:
		return v
	}
	return to
}

// encodesItself reports whether values of a type have their own form in JSON.
func encodesItself(t reflect.Type) bool {
	for _, own := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if t.Implements(own) || reflect.PointerTo(t).Implements(own) {
			return true
		}
	}
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 // base64
}
