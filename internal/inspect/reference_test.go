package inspect_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// keys adds the JSON keys of a type of package inspect to all, at any depth.
func keys(of reflect.Type, all map[string]bool) {
	for of.Kind() == reflect.Slice || of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[inspect.Status]().PkgPath() {
		return
	}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name != "" && name != "-" && !all[name] {
			all[name] = true
		}
		keys(field.Type, all)
	}
}

// TestReference checks that docs/reference/json.md names each key of a status and of an
// explanation in its section.
func TestReference(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/json.md")
	if err != nil {
		t.Fatal(err)
	}
	for title, of := range map[string]reflect.Type{"status": reflect.TypeFor[inspect.Status](), "explain": reflect.TypeFor[inspect.Explanation]()} {
		_, section, _ := strings.Cut(string(page), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		named := map[string]bool{"version": true} // in the introduction
		for _, m := range regexp.MustCompile("`([A-Za-z0-9\\[\\].]+)`").FindAllStringSubmatch(section, -1) {
			named[m[1][strings.LastIndex(m[1], ".")+1:]] = true
		}
		all := map[string]bool{}
		keys(of, all)
		if len(all) < 10 {
			t.Errorf("%s has %d keys", title, len(all))
		}
		if title == "explain" { // a container and its problems are as in a status
			for _, known := range []reflect.Type{reflect.TypeFor[inspect.Container](), reflect.TypeFor[inspect.Problem](), reflect.TypeFor[inspect.Fault](), reflect.TypeFor[inspect.Wait]()} {
				keys(known, named)
			}
		}
		for key := range all {
			if !named[key] {
				t.Errorf("section %s does not name %s", title, key)
			}
		}
	}
}
