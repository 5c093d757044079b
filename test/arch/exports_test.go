package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// mostExported is the number of names that a package of cpupoold may export.
const mostExported = 8

// mostMethods is the number of exported methods that a type of cpupoold may have.
const mostMethods = 25

// longestDoc is the number of lines that a package comment may have.
const longestDoc = 12

// exported returns the names that a package exports, without methods and fields.
func exported(p *packages.Package) []string {
	return slices.DeleteFunc(p.Types.Scope().Names(), func(n string) bool { return !token.IsExported(n) })
}

// hasExportLimit returns the packages to which mostExported applies. They hold the state
// and the decisions of the daemon. Leaves are older, and their size differs by subject.
func hasExportLimit() map[string]bool {
	limited := map[string]bool{"actor": true}
	for _, r := range rows() {
		if !r.leaf {
			limited[r.pkg] = true
		}
	}
	return limited
}

// TestPackagesExportLittle checks that packages export at most mostExported names.
func TestPackagesExportLittle(t *testing.T) {
	limited := hasExportLimit()
	for _, p := range load(t, "./internal/node/...") {
		name := strings.TrimPrefix(p.PkgPath, module+"internal/node/")
		if names := exported(p); limited[name] && len(names) > mostExported {
			t.Errorf("%s exports %d names; want at most %d: unexport some of %s", name, len(names), mostExported, strings.Join(names, ", "))
		}
	}
}

// exportedMethods returns the number of exported methods of a named type. Methods of embedded types
// count, because a reader of the type meets them too.
func exportedMethods(name *types.TypeName) (n int) {
	t := name.Type()
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(t).Methods() {
		if m.Obj().Exported() {
			n++
		}
	}
	return n
}

// TestTypesHaveFewMethods checks that types have at most mostMethods exported methods.
func TestTypesHaveFewMethods(t *testing.T) {
	for _, p := range load(t, "./internal/node/...") {
		for _, name := range p.Types.Scope().Names() {
			o, ok := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !ok || o.IsAlias() {
				continue
			}
			if n := exportedMethods(o); n > mostMethods {
				t.Errorf("%s.%s has %d exported methods; want at most %d: give a subject with state its own type",
					strings.TrimPrefix(p.PkgPath, module), name, n, mostMethods)
			}
		}
	}
}

// TestExportedMethods checks that promoted methods count, and methods with unexported names do not.
func TestExportedMethods(t *testing.T) {
	const src = "package m\n\ntype in struct{}\n\nfunc (*in) A() {}\n\nfunc (in) b() {}\n\n" +
		"type out struct{ *in }\n\nfunc (out) C() {}\n\ntype all interface{ A(); C(); d() }\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "m.go", src, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := new(types.Config).Check("m", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"in": 1, "out": 2, "all": 2} {
		if got := exportedMethods(p.Scope().Lookup(name).(*types.TypeName)); got != want {
			t.Errorf("%s has %d exported methods; want %d", name, got, want)
		}
	}
}

// TestPackageCommentsAreShort checks that the comment of each package of cpupoold has at
// most longestDoc lines.
func TestPackageCommentsAreShort(t *testing.T) {
	for _, p := range load(t, "./internal/node/...") {
		for _, f := range p.Syntax {
			if f.Doc == nil {
				continue
			}
			if n := p.Fset.Position(f.Doc.End()).Line - p.Fset.Position(f.Doc.Pos()).Line + 1; n > longestDoc {
				t.Errorf("%s has a package comment of %d lines; want at most %d: job, state, rules",
					strings.TrimPrefix(p.PkgPath, module), n, longestDoc)
			}
		}
	}
}
