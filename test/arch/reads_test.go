package arch_test

import (
	"go/ast"
	"go/types"
	"strings"
	"testing"
)

// readers returns the packages that may call cgroup.FS.Read, with the reason. All others read
// cgroups through kernelstate.Cache: its State is a fresh reading, its Current the last one.
func readers() map[string]string {
	return map[string]string{
		"internal/node/restore": "no daemon runs, and the journal is the only record",
		"internal/node/hostenv": "reads the driver and the NUMA nodes before the cache exists",
		"internal/node/lookup":  "fetches pods and containers in workers; the cache belongs to the event loop",
		"internal/node/undo":    "compares originals in workers and for restore",
		"internal/node/units":   "verifies reverted units in workers",
	}
}

// TestKernelReads checks that the daemon reads the files of cgroups through package kernelstate,
// so that one type decides what is read, and when.
func TestKernelReads(t *testing.T) {
	used := make(map[string]bool)
	for _, p := range load(t, "./cmd/cpupoold", "./internal/node/...") {
		path := strings.TrimPrefix(p.PkgPath, module)
		for _, f := range p.Syntax {
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				method, ok := p.TypesInfo.Uses[sel.Sel].(*types.Func)
				if !ok || method.FullName() != "(*"+module+"pkg/cgroup.FS).Read" {
					return true
				}
				if used[path] = true; readers()[path] == "" {
					t.Errorf("%s: calls cgroup.FS.Read; use kernelstate.Cache", p.Fset.Position(sel.Pos()))
				}
				return true
			})
		}
	}
	for path := range readers() {
		if !used[path] {
			t.Errorf("%s does not call cgroup.FS.Read; remove it from readers", path)
		}
	}
}
