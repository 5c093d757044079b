package arch_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// root is the folder of the module, seen from this package.
const root = "../.."

// codeSpan matches text between backticks, which Markdown shows as code.
var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans returns the texts between backticks.
func spans(text string) []string {
	var all []string
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// section returns the lines of a Markdown file from a heading to the next of any level.
func section(t *testing.T, file, heading string) []string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(src), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", file, heading)
	}
	lines := strings.Split(after, "\n")
	if end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") }); end >= 0 {
		lines = lines[:end]
	}
	return lines
}

// cells returns the cells of a row of a Markdown table, or nil for any other line.
func cells(line string) []string {
	inner, ok := strings.CutPrefix(line, "|")
	if !ok {
		return nil
	}
	all := strings.Split(strings.TrimSuffix(inner, "|"), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// exists reports whether a path below the module's root exists.
func exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(root, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestArchitectureShowsRows checks that ARCHITECTURE.md has a table of the daemon's
// packages with the order and the imports that rows returns.
func TestArchitectureShowsRows(t *testing.T) {
	type line struct{ Package, Imports string }
	var want, got []line
	for _, r := range rows() {
		imports := "–"
		if len(r.needs) > 0 {
			imports = "`" + strings.Join(r.needs, ", ") + "`"
		}
		want = append(want, line{"`" + r.pkg + "`", imports})
	}
	for _, l := range section(t, "ARCHITECTURE.md", "## Packages of the daemon") {
		if c := cells(l); len(c) == 3 && strings.HasPrefix(c[0], "`") {
			got = append(got, line{c[0], c[2]})
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table of the daemon's packages (-rows +ARCHITECTURE.md):\n%s", diff)
	}
}

// TestArchitectureNamesPackages checks that ARCHITECTURE.md describes each package that
// has a rule for its imports.
func TestArchitectureNamesPackages(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	for rel := range arrows() {
		name := strings.TrimPrefix(rel, "internal/node/")
		if !strings.Contains(string(src), "| `"+name+"` |") && !strings.HasPrefix(name, "cmd/") {
			t.Errorf("ARCHITECTURE.md has no table row for %s", rel)
		}
	}
}

// TestArchitectureLeadsToFiles checks the table of ARCHITECTURE.md that leads from a
// subject to files: each package exists, and has one of the files.
func TestArchitectureLeadsToFiles(t *testing.T) {
	checked := 0
	for _, l := range section(t, "ARCHITECTURE.md", "## Where does a change belong") {
		c := cells(l)
		if len(c) != 3 || !strings.Contains(c[1], "`") {
			continue
		}
		checked++
		packages, files := spans(c[1]), spans(c[2])
		used := map[string]bool{}
		for i, p := range packages {
			if !exists(t, p) {
				packages[i] = "internal/node/" + p
			}
			if !exists(t, packages[i]) {
				t.Errorf("%s: no package %s", c[0], p)
			}
		}
		for _, f := range files {
			found := strings.HasPrefix(f, "make ") || strings.Contains(f, "/") && exists(t, f)
			for _, p := range packages {
				if exists(t, path.Join(p, f)) {
					found, used[p] = true, true
				}
			}
			if !found {
				t.Errorf("%s: no file %s in %s", c[0], f, strings.Join(packages, ", "))
			}
		}
		for _, p := range packages {
			if len(used) > 0 && !used[p] {
				t.Errorf("%s: %s lacks all of the files", c[0], p)
			}
		}
	}
	if checked < 50 {
		t.Errorf("checked %d rows; want at least 50: has the table changed its form?", checked)
	}
}

// TestArchitectureWalkLeadsToFunctions checks that each row of the walk in ARCHITECTURE.md names
// a function that its file declares.
func TestArchitectureWalkLeadsToFunctions(t *testing.T) {
	checked := 0
	for _, l := range section(t, "ARCHITECTURE.md", "### The walk of one container event") {
		c := cells(l)
		if len(c) != 3 || !strings.HasPrefix(c[1], "`") {
			continue
		}
		checked++
		file, name := spans(c[1])[0], spans(c[2])[0]
		if !strings.Contains(file, "/") {
			file = path.Join(loopPackage, file)
		}
		src, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + name + `[\[(]`).Match(src) {
			t.Errorf("%s: %s declares no function %s", c[0], file, name)
		}
	}
	if checked < 15 {
		t.Errorf("checked %d rows; want at least 15: has the table changed its form?", checked)
	}
}

// TestDocumentsNameGoFiles checks that Go files which documents for developers name exist,
// at that path or, without a folder, anywhere.
func TestDocumentsNameGoFiles(t *testing.T) {
	names := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		names[d.Name()] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	documents, err := filepath.Glob(filepath.Join(root, "docs/adr/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, filepath.Join(root, "ARCHITECTURE.md"), filepath.Join(root, "CONTRIBUTING.md"))
	for _, doc := range documents {
		src, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range spans(string(src)) {
			if strings.HasSuffix(s, ".go") && !exists(t, s) && (strings.Contains(s, "/") || !names[s]) {
				t.Errorf("%s names %s, which does not exist", doc, s)
			}
		}
	}
}
