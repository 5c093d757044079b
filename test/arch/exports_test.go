package arch_test

import (
	"go/token"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// mostExported is the number of names that a package of cpupoold may export.
const mostExported = 8

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
