package bounded

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestAnnotations checks the bounds of names and values, and that a second call changes nothing.
func TestAnnotations(t *testing.T) {
	keep := func(name string) bool { return strings.HasPrefix(name, "k") }
	many := map[string]string{"k": "{}"}
	for i := range 1000 {
		many[fmt.Sprintf("key-%08d", i)] = strings.Repeat("1", 100)
	}
	for name, tt := range map[string]struct {
		all  map[string]string
		want func(map[string]string) bool
	}{
		"none":       {map[string]string{"a": "1"}, func(m map[string]string) bool { return m == nil }},
		"a few":      {map[string]string{"a": "1", "k": "2"}, func(m map[string]string) bool { return maps.Equal(m, map[string]string{"k": "2"}) }},
		"full value": {map[string]string{"k": strings.Repeat("1", maxValue)}, func(m map[string]string) bool { return len(m["k"]) == maxValue }},
		"long value": {map[string]string{"k": strings.Repeat("1", 256<<10)}, func(m map[string]string) bool { return m["k"] == strings.Repeat("1", maxValue)+endMark }},
		"characters": {map[string]string{"k": "1" + strings.Repeat("é", 256<<10)}, func(m map[string]string) bool { return utf8.ValidString(m["k"]) && len(m["k"]) < maxValue+4 }},
		"many": {many, func(m map[string]string) bool {
			return m["k"] == tooMany && m["key-00000000"] == tooMany && len(m) > 500 && len(m) < 1000
		}},
	} {
		got := Annotations(tt.all, keep)
		size := 0
		for k, v := range got {
			size += len(k) + len(v)
		}
		if !tt.want(got) || size > maxPod {
			t.Errorf("%s: %d annotations of %d bytes: %.200v", name, len(got), size, got)
		}
		if !maps.Equal(got, Annotations(got, keep)) {
			t.Errorf("%s: another call changes the annotations", name)
		}
	}
}
