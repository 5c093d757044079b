package arch_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// The structure of the package of the event loop. The numbers are upper bounds: a
// change that lowers a figure lowers the bound with it.
const (
	loopPackage = "internal/node/daemon"
	loopType    = "Loop"

	mostLines       = 3_015 // lines of the files without tests.
	mostFilePairs   = 102   // pairs of files; the first uses a declaration of the second.
	mostMutualPairs = 7     // pairs of files that use declarations of each other.
	mostLoopFields  = 24    // fields of the loop.
	mostLoopMethods = 67    // methods of the loop.
	mostUsers       = 10    // files that use declarations of one file, except of the loop's.
)

// load type-checks the packages that match the patterns, relative to the module's root.
func load(t *testing.T, patterns ...string) []*packages.Package {
	t.Helper()
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
		Dir:  "../..",
	}, patterns...)
	if err != nil {
		t.Fatalf("load packages: %v", err)
	}
	for _, p := range all {
		for _, e := range p.Errors {
			t.Fatalf("load %s: %v", p.PkgPath, e)
		}
	}
	return all
}

// structure holds figures of a package.
type structure struct {
	lines, pairs, mutual, fields, methods, users int
}

// measure returns the figures of a package and of its type with the given name.
func measure(p *packages.Package, typeName string) (structure, error) {
	var s structure
	type pair struct{ user, used string }
	uses := map[pair]bool{}
	for _, f := range p.Syntax {
		user := p.Fset.Position(f.Package).Filename
		src, err := os.ReadFile(user)
		if err != nil {
			return structure{}, err
		}
		s.lines += strings.Count(string(src), "\n")
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if o := p.TypesInfo.Uses[id]; o != nil && o.Pkg() == p.Types && o.Pos().IsValid() {
				if used := p.Fset.Position(o.Pos()).Filename; used != user {
					uses[pair{user, used}] = true
				}
			}
			return true
		})
	}
	s.pairs = len(uses)
	users := map[string]int{}
	for u := range uses {
		users[u.used]++
		if u.user < u.used && uses[pair{u.used, u.user}] {
			s.mutual++
		}
	}
	named, ok := p.Types.Scope().Lookup(typeName).(*types.TypeName)
	if !ok {
		return structure{}, fmt.Errorf("%s has no type %s", p.PkgPath, typeName)
	}
	t := named.Type().(*types.Named)
	s.methods = t.NumMethods()
	if st, ok := t.Underlying().(*types.Struct); ok {
		s.fields = st.NumFields()
	}
	delete(users, p.Fset.Position(named.Pos()).Filename)
	for _, n := range users {
		s.users = max(s.users, n)
	}
	return s, nil
}

// TestLoopStructure checks that the package of the event loop grows in none of its
// figures, and prints them.
func TestLoopStructure(t *testing.T) {
	got, err := measure(load(t, "./"+loopPackage)[0], loopType)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name      string
		got, most int
	}{
		{"lines", got.lines, mostLines},
		{"file pairs", got.pairs, mostFilePairs},
		{"mutual file pairs", got.mutual, mostMutualPairs},
		{"fields of " + loopType, got.fields, mostLoopFields},
		{"methods of " + loopType, got.methods, mostLoopMethods},
		{"users of one file", got.users, mostUsers},
	} {
		t.Logf("%s: %s: %d (at most %d)", loopPackage, f.name, f.got, f.most)
		if f.got > f.most {
			t.Errorf("%s: %s: %d; want at most %d: move code into the package that owns the state", loopPackage, f.name, f.got, f.most)
		}
	}
}

// mostPackageLines returns the number of lines that the files of a package without tests may have, or
// 0 for any number. The two packages of the core with a number of their own have one subject each.
// TestLoopStructure has the number of the event loop's package.
func mostPackageLines(rel string) int {
	switch {
	case rel == "pkg/cgroup":
		return 5_600
	case rel == "pkg/pools":
		return 4_800
	case under(rel, "internal/node"), under(rel, "internal/testing"):
		return 4_000
	}
	return 0
}

// TestPackagesAreSmall checks the number of lines of packages.
func TestPackagesAreSmall(t *testing.T) {
	for _, p := range list(t) {
		most := mostPackageLines(p.rel())
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			src, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(src), "\n")
		}
		if most > 0 && lines > most {
			t.Errorf("%s has %d lines; want at most %d: give a subject its own package", p.rel(), lines, most)
		}
	}
}

// TestMeasure checks the figures of a package of two files that use each other.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	for name, src := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"a.go":   "package m\n\ntype loop struct {\n\tx, y int\n\tb other\n}\n\nfunc (l *loop) f() { l.b.g() }\n",
		"b.go":   "package m\n\ntype other struct{ l *loop }\n\nfunc (o other) g() {}\n",
		"c.go":   "package m\n\nvar _ other\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo, Dir: dir,
	}, ".")
	if err != nil {
		t.Fatal(err)
	}
	got, err := measure(all[0], "loop")
	if want := (structure{lines: 16, pairs: 3, mutual: 1, fields: 3, methods: 1, users: 2}); err != nil || got != want {
		t.Errorf("measure = %+v, %v; want %+v", got, err, want)
	}
	if _, err := measure(all[0], "absent"); err == nil {
		t.Error("measure of a missing type returned no error")
	}
}
