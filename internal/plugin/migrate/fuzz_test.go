package migrate_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/plugin/migrate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// FuzzImport checks that the import of any file ends, and returns a valid configuration
// or an error. A second import has the same result.
func FuzzImport(f *testing.F) {
	archives, err := filepath.Glob("testdata/import/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range archives {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range txtar.Parse(data).Files {
			f.Add(file.Name, file.Data, false)
			f.Add(file.Name, file.Data, true)
		}
	}
	f.Fuzz(func(t *testing.T, name string, data []byte, documents bool) {
		o := migrate.Options{Namespaces: []string{"a"}}
		if documents {
			o.Reading = migrate.Documents
		}
		files := []migrate.File{{Name: name, Data: data}}
		result, err := migrate.Import(files, o)
		again, errAgain := migrate.Import(files, o)
		if (err == nil) != (errAgain == nil) || string(result.Configuration) != string(again.Configuration) {
			t.Fatalf("errors of two imports = %v, %v; want the same results", err, errAgain)
		}
		if err != nil {
			return
		}
		if _, err := config.Parse(result.Configuration, "c.yaml", config.Overrides{}, nil); err != nil {
			t.Fatalf("%v\n%s", err, result.Configuration)
		}
		for _, format := range migrate.Formats() {
			rendered, err := migrate.Render(result.Config, format, "worker", nil)
			if err != nil || format == migrate.Systemd || format == migrate.Kernel {
				continue
			}
			if _, err := migrate.Import([]migrate.File{{Name: rendered.Name, Data: rendered.Data}}, o); err != nil {
				t.Fatalf("%s is not read again: %v\n%s", format, err, rendered.Data)
			}
		}
	})
}

// FuzzPinning checks that an accepted pinning file has labels and CPUs, and that
// another one has neither.
func FuzzPinning(f *testing.F) {
	for _, s := range []string{`{"management":{"cpuset":"0-1,32-33"}}`, `{"a":{"cpuset":""}}`, `{"a":{"cpuset":"0"},"a":{"cpuset":"1"}}`, `[]`, `{"a":null}`, ``} {
		f.Add([]byte(s))
	}
	present := cpuset.Range(0, 63)
	f.Fuzz(func(t *testing.T, data []byte) {
		sets, err := migrate.ParsePinning(data, present)
		if err != nil && sets != nil {
			t.Fatalf("%v and an error: %v", sets, err)
		}
		for typ, set := range sets {
			if typ == "" || !set.IsSubsetOf(present) {
				t.Fatalf("type %q has CPUs %s; want a name and present CPUs", typ, set)
			}
		}
	})
}
