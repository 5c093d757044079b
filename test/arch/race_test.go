package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSerialPackages checks that the packages which `make test-unit` tests without the race
// detector start no goroutine, and their tests and dependencies do not either.
func TestSerialPackages(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^SERIAL := ((?:.*\\\n)*.*)\n`).FindSubmatch(makefile)
	if m == nil {
		t.Fatal("Makefile has no list SERIAL")
	}
	for dir := range strings.FieldsSeq(strings.ReplaceAll(string(m[1]), "\\\n", " ")) {
		for _, start := range goroutines(t, dir) {
			t.Errorf("%s starts goroutines: remove it from SERIAL in the Makefile: %s", dir, start)
		}
	}
}

// goroutines returns the places where a package of the module, its tests, or the packages of the
// module that they import start goroutines.
func goroutines(t *testing.T, dir string) (starts []string) {
	t.Helper()
	seen := map[string]bool{}
	for todo, tests := []string{dir}, true; len(todo) > 0; todo, tests = todo[1:], false {
		if seen[todo[0]] {
			continue
		}
		seen[todo[0]] = true
		files, err := filepath.Glob(filepath.Join("../..", todo[0], "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("list files of %s: %v, %v", todo[0], files, err)
		}
		imports := map[string]bool{}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") && !tests {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if to, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours {
					imports[to] = true
				}
			}
			for _, pos := range concurrent(f) {
				starts = append(starts, fmt.Sprint(fset.Position(pos)))
			}
		}
		todo = append(todo, slices.Sorted(maps.Keys(imports))...)
	}
	return starts
}

// concurrent returns the places of a file that start a goroutine, or let a library start one that
// calls the package.
func concurrent(f *ast.File) (places []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			places = append(places, n.Pos())
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			switch {
			case slices.Contains([]string{"Go", "Parallel", "RunParallel", "AfterFunc", "ListenAndServe", "Serve"}, n.Sel.Name):
				places = append(places, n.Pos())
			case pkg != nil && pkg.Name == "httptest" && strings.HasSuffix(n.Sel.Name, "Server"):
				places = append(places, n.Pos())
			}
		}
		return true
	})
	return places
}

// TestConcurrent checks that each way to start a goroutine is found.
func TestConcurrent(t *testing.T) {
	const serial = "package p\nfunc f(a func()) { a(); defer a() }"
	for src, want := range map[string]int{
		serial:                                   0,
		"package p\nfunc f(a func()) { go a() }": 1,
		"package p\nfunc f(w *sync.WaitGroup, a func()) { w.Go(a) }":       1,
		"package p\nfunc f(t *testing.T) { t.Parallel() }":                 1,
		"package p\nfunc f() { time.AfterFunc(0, nil) }":                   1,
		"package p\nfunc f(h http.Handler) { httptest.NewTLSServer(h) }":   1,
		"package p\nfunc f(s *grpc.Server, l net.Listener) { s.Serve(l) }": 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(concurrent(f)); got != want {
			t.Errorf("concurrent(%s) has %d places; want %d", src, got, want)
		}
	}
}
