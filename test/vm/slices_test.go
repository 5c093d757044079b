//go:build vm

package vm_test

import (
	"flag"
	"go/ast"
	"go/build/constraint"
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

// chosenSlice is the slice for which `make test-slice` has time.
var chosenSlice = flag.String("slice", "all", "tests to run: all; commit: the slice that the commit chooses; or a slice's name")

// chosen returns the tests of the chosen slice. It reports whether all tests are chosen.
func chosen(t *testing.T) (tests []string, all bool) {
	t.Helper()
	if *chosenSlice == "all" {
		return nil, true
	}
	of := matrix.Slices()
	name := *chosenSlice
	if name == "commit" {
		h := fnv.New32a()
		_, _ = io.WriteString(h, "slice of "+head(t))
		name = of[int(h.Sum32()%uint32(len(of)))].Name
	}
	i := slices.IndexFunc(of, func(s matrix.Slice) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("choose slice %q: no slice has that name", name)
	}
	return of[i].Tests, false
}

// leave skips a test that is not in the chosen slice.
func leave(t *testing.T) {
	t.Helper()
	if tests, all := chosen(t); !all && !slices.Contains(tests, t.Name()) {
		t.Skip("not in the chosen slice; make test-vm runs all")
	}
}

// chosenParts returns the argument that limits a package in the guest to its tests in the chosen
// slice. It skips the test if the slice has no part of it.
func chosenParts(t *testing.T) []string {
	t.Helper()
	tests, all := chosen(t)
	if all {
		return nil
	}
	var parts []string
	for _, name := range tests {
		if part, ok := strings.CutPrefix(name, t.Name()+"/"); ok {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		t.Skip("no part of it is in the chosen slice; make test-vm runs all")
	}
	return []string{"-test.run=^(" + strings.Join(parts, "|") + ")$"}
}

// unsliced returns the tests that are in no slice, with the reason. The tests of the guarantees
// are in TestGuarantees.
func unsliced() map[string]string {
	all := map[string]string{
		"TestSlices":      "needs no machine",
		"TestGuarantees":  "make test",
		"TestDisturbance": "make test-disturbance",
		"TestChurn":       "make churn",
		"TestPackage":     "needs the files of make release: -dist",
		"TestBench":       "make bench", "TestRow": "a part of make bench", "TestLimits": "make bench-limits", "TestLiveSwitch": "make bench PARTS=live", "TestLiveMemory": "make bench PARTS=live",

		"TestDaemon/TestDrift": "TestDrift", "TestDaemon/TestDriftReload": "TestDrift", "TestDaemon/TestDriftAsked": "TestDrift",
		"TestDaemon/TestDriftRestarts": "TestDrift", "TestDaemon/TestUnidentified": "TestDrift",
		"TestDaemon/TestSoak": "TestSoak", "TestDaemon/TestKills": "TestSoak", "TestDaemon/TestChurn": "make churn",
		"TestDaemon/TestHandoverDeaths": "TestKernels", "TestDaemon/TestAnnotations": "TestTenants",

		"TestCluster/TestConformance": "make test-conformance",
		"TestCluster/TestRelease":     "needs the files of make release: -dist",
	}
	for _, test := range guaranteeTests()["daemon"] {
		all["TestDaemon/"+test] = "TestGuarantees"
	}
	return all
}

// TestSlices checks that each test is in one slice, or is in none for a reason. A test outside of
// both would run in no run of CI.
func TestSlices(t *testing.T) {
	tests, leaves := declared(t, "."), make(map[string]bool)
	for name, f := range tests {
		leaves[name] = calls(f, "leave") || calls(f, "chosenParts")
	}
	there := parts(t)
	for name := range tests {
		if !hasParts(there, name) {
			there = append(there, name)
		}
	}
	seen := make(map[string]bool)
	for _, s := range matrix.Slices() {
		for _, name := range s.Tests {
			if !slices.Contains(there, name) {
				t.Errorf("slice %s: test %s does not exist", s.Name, name)
			}
			if seen[name] {
				t.Errorf("%s is in two slices; want one", name)
			}
			seen[name] = true
		}
	}
	reasons := unsliced()
	for _, name := range there {
		if (reasons[name] != "") == seen[name] {
			t.Errorf("%s: in a slice %t, reason to be in none %q; want one of both", name, seen[name], reasons[name])
		}
		if seen[name] && !strings.Contains(name, "/") && !leaves[name] {
			t.Errorf("%s is in a slice and does not call leave: it would run with each slice", name)
		}
	}
	for name := range reasons {
		if !slices.Contains(there, name) {
			t.Errorf("%s has a reason to be in no slice, and does not exist", name)
		}
	}
	for pkg, names := range guaranteeTests() {
		for _, name := range names {
			if declared(t, "guest/"+pkg)[name] == nil {
				t.Errorf("a guarantee names %s/%s, which does not exist", pkg, name)
			}
		}
	}
}

// hasParts reports whether the parts of a test are chosen one by one.
func hasParts(parts []string, test string) bool {
	return slices.ContainsFunc(parts, func(name string) bool { return strings.HasPrefix(name, test+"/") })
}

// parts returns the tests that are chosen one by one, and are parts of other tests.
func parts(t *testing.T) (names []string) {
	t.Helper()
	for dir, prefix := range map[string]string{"guest/daemon": "TestDaemon/", "../e2e": "TestCluster/"} {
		for name := range declared(t, dir) {
			names = append(names, prefix+name)
		}
	}
	for topology := range placements() {
		names = append(names, "TestPlacement/"+topology)
	}
	for _, p := range matrix.Pairs() {
		names = append(names, p.Test())
	}
	for _, p := range podLevelPairs() {
		names = append(names, "TestPodLevel/"+p.Name)
	}
	for name := range undone() {
		names = append(names, "TestUndo/"+name)
	}
	for _, s := range matrix.Suites() {
		names = append(names, s.KernelTests()...)
		for _, test := range []string{"TestLatency", "TestLiveCounts", "TestSchedwatch"} {
			names = append(names, test+"/"+s.Name)
		}
	}
	return names
}

// declared returns the tests of a directory's files for machines, by name.
func declared(t *testing.T, dir string) map[string]*ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("list tests of %s: %v, %v", dir, files, err)
	}
	tests := make(map[string]*ast.FuncDecl)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !tagged(file) {
			continue
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests[f.Name.Name] = f
			}
		}
	}
	return tests
}

// tagged reports whether a file has a build constraint, as all that need a machine.
func tagged(file *ast.File) bool {
	return slices.ContainsFunc(file.Comments, func(c *ast.CommentGroup) bool { return constraint.IsGoBuild(c.List[0].Text) })
}

// calls reports whether a function calls another one by name.
func calls(f *ast.FuncDecl, name string) (does bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if c, is := n.(*ast.CallExpr); is {
			if id, is := c.Fun.(*ast.Ident); is && id.Name == name {
				does = true
			}
		}
		return true
	})
	return does
}
