package arch_test

import (
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// mostExported is the number of names that a package of cpupoold may export.
const mostExported = 8

// longestDoc is the number of lines that a package comment may have.
const longestDoc = 12

// exportsMore returns the packages below internal/node that export more than
// mostExported names, with the number. An entry may only become lower, and goes when
// the package keeps to the limit.
func exportsMore() map[string]int {
	return map[string]int{
		"inventory": 17,
	}
}

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

// TestPackagesExportLittle checks that packages export at most mostExported names, and
// that no entry of exportsMore is higher than needed.
func TestPackagesExportLittle(t *testing.T) {
	limited, more := hasExportLimit(), exportsMore()
	for _, p := range load(t, "./internal/node/...") {
		name := strings.TrimPrefix(p.PkgPath, module+"internal/node/")
		if !limited[name] {
			continue
		}
		names := exported(p)
		limit := max(mostExported, more[name])
		switch n := len(names); {
		case n > limit:
			t.Errorf("%s exports %d names; want at most %d: unexport some of %s", name, n, limit, strings.Join(names, ", "))
		case more[name] > 0 && n <= mostExported:
			t.Errorf("%s exports %d names: remove its entry from exportsMore", name, n)
		case n < more[name]:
			t.Errorf("%s exports %d names: lower its entry in exportsMore, which is %d", name, n, more[name])
		}
		delete(more, name)
	}
	for _, name := range slices.Sorted(maps.Keys(more)) {
		t.Errorf("exportsMore has an entry for %s, which has no limit or does not exist", name)
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
