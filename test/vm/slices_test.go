//go:build vm

package vm_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// chosenSlice is what `make test-ci` has time for.
var chosenSlice = flag.String("slice", "all", "what is run beside the tests that are in no slice: all; commit: the slice that the commit chooses; or a slice's name")

// left are the tests that are left to other runs.
func left(t *testing.T) (names []string) {
	t.Helper()
	all := matrix.Slices()
	chosen := *chosenSlice
	switch chosen {
	case "all":
		return nil
	case "commit":
		h := fnv.New32a()
		_, _ = io.WriteString(h, "slice of "+head(t))
		chosen = all[int(h.Sum32()%uint32(len(all)))].Name
	}
	if !slices.ContainsFunc(all, func(s matrix.Slice) bool { return s.Name == chosen }) {
		t.Fatalf("choose slice %q: there is none of that name", chosen)
	}
	for _, s := range all {
		if s.Name != chosen {
			names = append(names, s.Tests...)
		}
	}
	return names
}

// leave skips a test that is left to another run.
func leave(t *testing.T) {
	t.Helper()
	if slices.Contains(left(t), t.Name()) {
		t.Skip("in a slice that is not chosen; make test-vm runs all")
	}
}

// leftOut are the arguments by which a package in the guest leaves out what is left to another run.
func leftOut(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, name := range left(t) {
		if in, of := strings.CutPrefix(name, t.Name()+"/"); of {
			names = append(names, in)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"-test.skip=^(" + strings.Join(names, "|") + ")$"}
}

// TestSlices: a name that is in no package would be a test that runs always, or one that was thought to.
func TestSlices(t *testing.T) {
	there, leaves := make(map[string]bool), make(map[string]bool)
	for dir, prefix := range map[string]string{".": "", "guest/daemon": "TestDaemon/", "../e2e": "TestCluster/"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				if f, is := d.(*ast.FuncDecl); is {
					there[prefix+f.Name.Name] = true
					leaves[prefix+f.Name.Name] = callsLeave(f)
				}
			}
		}
	}
	for topology := range placements() {
		there["TestPlacement/"+topology] = true
	}
	for _, p := range matrix.Pairs() {
		there[p.Test()] = true
	}
	for _, p := range podLevelPairs() {
		there["TestPodLevel/"+p.Name] = true
	}
	var onKernels []string
	for _, s := range matrix.Suites() {
		onKernels = append(onKernels, s.KernelTests()...)
	}
	for _, name := range onKernels {
		there[name] = true
	}
	seen := make(map[string]bool)
	for _, s := range matrix.Slices() {
		for _, name := range s.Tests {
			if !there[name] {
				t.Errorf("slice %s: there is no %s", s.Name, name)
			}
			if !strings.Contains(name, "/") && !leaves[name] {
				t.Errorf("%s is in slice %s and does not leave: it would run always", name, s.Name)
			}
			if seen[name] {
				t.Errorf("%s is in two slices", name)
			}
			seen[name] = true
		}
	}
	for _, name := range onKernels {
		if !seen[name] {
			t.Errorf("%s is in no slice: it would run always", name)
		}
	}
	for name := range there {
		if strings.HasPrefix(name, "TestCluster/Test") && name != "TestCluster/TestConformance" && !seen[name] { // that is make test-conformance
			t.Errorf("%s is in no slice: it would run never", name)
		}
	}
}

// callsLeave says that a test can be left to another run.
func callsLeave(f *ast.FuncDecl) (calls bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, is := n.(*ast.CallExpr); is {
			if name, is := c.Fun.(*ast.Ident); is && name.Name == "leave" {
				calls = true
			}
		}
		return true
	})
	return calls
}
