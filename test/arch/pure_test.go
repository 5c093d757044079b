package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pure returns the packages and files that only decide: the same input gives the same
// output on any machine. pkg/topology reads only the fs.FS that its caller passes.
// Packages that take a time.Time are not in the list, because they import package time.
func pure() []string {
	return []string{
		"pkg/cpuset/*.go",
		"pkg/workload/*.go",
		"pkg/topology/*.go",
		"pkg/allocate/*.go",
		"pkg/pools/*.go",
		"pkg/poolspec/*.go",
		"pkg/defrag/*.go",
		"pkg/cgroup/diff*.go",
		"pkg/cgroup/around.go",
		"pkg/cgroup/limits.go",
		"internal/node/hostslices/*.go",
		"internal/admission/*.go",
		"internal/cpuclaim/*.go",
		"internal/dra/*.go",
		"internal/autoscaling/*.go",
		"internal/explain/*.go",
		"internal/codes/*.go",
		"internal/findings/*.go",
		"internal/nodecheck/*.go",
		"internal/capacity/*.go",
		"internal/nodekind/*.go",
		"internal/othermanagers/*.go",
		"internal/cluster/hostedpriority/*.go",
		"internal/node/noise/*.go",
		"internal/node/audit/evaluate.go",
		"internal/node/audit/ownership.go",
		"internal/node/audit/parse*.go",
		"internal/node/audit/report.go",
		"internal/node/audit/task.go",
		"internal/node/livereport/*.go",
		"internal/node/latency/choose.go",
		"internal/node/latency/parser.go",
		"internal/node/latency/report.go",
		"internal/cluster/eviction/victims.go",
		"internal/node/nodestatus/resources.go",
		"internal/plugin/picture/*.go",
		"internal/verdict/*.go",
		"internal/node/quantity/*.go",
		"internal/node/power/ask.go",
		"internal/node/power/plan.go",
		"internal/layout/layout.go",
		"internal/plugin/autoscale/*.go",
		"internal/plugin/migrate/*.go",
		"internal/plugin/simulate/[^t]*.go",
		"internal/plugin/size/*.go",
		"internal/node/report/names.go",
		"internal/node/report/redact.go",
		"internal/node/tune/knob.go",
		"internal/node/tune/plan.go",
		"internal/node/tune/parse.go",
	}
}

// impure returns imports that reach outside of a function, or hide state.
func impure() []string {
	return []string{
		"context", "crypto/rand", "flag", "io/ioutil", "log", "math/rand", "net", "os",
		"plugin", "runtime", "sync", "syscall", "testing", "time", "unsafe",
	}
}

// formulas returns the libraries that pure code may import. They convert weights, hold the types
// of pods and quantities, and sum the resources of a pod. They compare a pod with the labels and
// taints of a node, with a logger that discards all. Others check names, and parse YAML and TOML.
func formulas() []string {
	return []string{
		"github.com/BurntSushi/toml", "github.com/opencontainers/cgroups", "go.yaml.in/yaml/v3", "k8s.io/api/core/v1", "k8s.io/api/resource/v1", "k8s.io/apimachinery/pkg/api/resource",
		"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/util/validation", "k8s.io/component-helpers/resource",
		"k8s.io/component-helpers/scheduling/corev1", "k8s.io/component-helpers/scheduling/corev1/nodeaffinity", "github.com/go-logr/logr", "k8s.io/utils/ptr",
	}
}

// impurities describes each construct that makes a source file impure.
func impurities(name string, src any) ([]string, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if path != "net/url" && slices.ContainsFunc(impure(), func(dir string) bool { return under(path, dir) }) {
			bad = append(bad, "imports "+path)
		}
		if strings.Contains(path, ".") && !strings.HasPrefix(path, module) && !slices.Contains(formulas(), path) {
			bad = append(bad, "imports "+path)
		}
	}
	for _, decl := range f.Decls {
		bad = append(bad, globals(decl)...)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad = append(bad, fmt.Sprintf("starts a goroutine in line %d", fset.Position(n.Pos()).Line))
		case *ast.ChanType:
			bad = append(bad, fmt.Sprintf("has a channel in line %d", fset.Position(n.Pos()).Line))
		case *ast.FuncDecl:
			if n.Recv == nil && n.Name.Name == "init" {
				bad = append(bad, "has an init function")
			}
		}
		return true
	})
	return bad, nil
}

// globals describes the package variables of a declaration, except sentinel errors and embedded
// files.
func globals(decl ast.Decl) []string {
	gen, ok := decl.(*ast.GenDecl)
	if !ok || gen.Tok != token.VAR || gen.Doc != nil && strings.HasPrefix(gen.Doc.List[len(gen.Doc.List)-1].Text, "//go:embed ") {
		return nil
	}
	var bad []string
	for _, spec := range gen.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for _, name := range value.Names {
			if name.Name != "_" && !strings.HasPrefix(name.Name, "Err") && !strings.HasPrefix(name.Name, "err") {
				bad = append(bad, "has the package variable "+name.Name)
			}
		}
	}
	return bad
}

// TestPureStaysPure checks that no file of pure has an impurity.
func TestPureStaysPure(t *testing.T) {
	for _, pattern := range pure() {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		if len(files) == 0 {
			t.Errorf("no file matches %s: correct the list", pattern)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			bad, err := impurities(file, nil)
			if err != nil {
				t.Error(err)
			}
			for _, b := range bad {
				t.Errorf("%s %s", file, b)
			}
		}
	}
}

// TestImpurities checks the detection of impurities by an example.
func TestImpurities(t *testing.T) {
	const src = `package p

import (
	"errors"
	"io/fs"
	"os/exec"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"golang.org/x/sys/unix"
)

var ErrFine = errors.New("fine")
var _ fs.FS
var cache map[string]int

func init() {}

func f() { go f() }

type t struct{ c chan int }
`
	got, err := impurities("p.go", src)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"imports os/exec", "imports time", "imports golang.org/x/sys/unix", "has the package variable cache",
		"has an init function", "starts a goroutine in line 19", "has a channel in line 21",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("impurities (-want +got):\n%s", diff)
	}
}

// TestPackagesExplainThemselves checks that each package has a comment in the form of go doc.
func TestPackagesExplainThemselves(t *testing.T) {
	for _, p := range list(t) {
		start := "Package " + p.Name + " "
		if p.Name == "main" {
			start = "Command "
		}
		if len(p.GoFiles) > 0 && !strings.HasPrefix(p.Doc, start) {
			t.Errorf("%s: package comment is %q; want one that starts with %q", p.rel(), p.Doc, start)
		}
	}
}

// Limits of a file's length in lines, so that a file has one subject.
const (
	longestFile = 400
	longestTest = 600
)

// TestFilesAreShort checks the lengths of all Go files of the repository.
func TestFilesAreShort(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		limit := longestFile
		if strings.HasSuffix(path, "_test.go") {
			limit = longestTest
		}
		if n := strings.Count(string(src), "\n"); n > limit {
			t.Errorf("%s has %d lines; split it by subjects (limit %d)", path, n, limit)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
