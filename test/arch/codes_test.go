package arch_test

import (
	"go/ast"
	"go/constant"
	"go/types"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

// codesIn returns the codes in the source of a package. These are the constants of type
// pools.Code, and constant strings for a field, a variable or a parameter with the name code.
// The reasons of conditions and of events, and the names of checks, are codes, too.
func codesIn(p *packages.Package) map[string]bool {
	found := map[string]bool{}
	add := func(name string, e ast.Expr) {
		if v := p.TypesInfo.Types[e].Value; v != nil && v.Kind() == constant.String && constant.StringVal(v) != "" && strings.EqualFold(name, "code") {
			found[constant.StringVal(v)] = true
		}
	}
	for _, o := range p.TypesInfo.Defs {
		if c, ok := o.(*types.Const); ok && strings.HasSuffix(c.Type().String(), "pkg/pools.Code") {
			found[constant.StringVal(c.Val())] = true
		}
	}
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				t := p.TypesInfo.TypeOf(n)
				if pointer, ok := t.(*types.Pointer); ok {
					t = pointer.Elem() // of an element whose type is omitted
				}
				if s, ok := t.Underlying().(*types.Struct); ok {
					addFields(n, t, s, add)
				}
			case *ast.AssignStmt:
				for i, to := range n.Lhs {
					if id, ok := to.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
						add(id.Name, n.Rhs[i])
					} else if s, ok := to.(*ast.SelectorExpr); ok && len(n.Lhs) == len(n.Rhs) {
						add(s.Sel.Name, n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				sig, ok := p.TypesInfo.TypeOf(n.Fun).(*types.Signature)
				for i := 0; ok && i < min(sig.Params().Len(), len(n.Args)); i++ {
					name := sig.Params().At(i).Name()
					if s, isMethod := n.Fun.(*ast.SelectorExpr); isMethod && s.Sel.Name == "Eventf" && name == "reason" {
						name = "code"
					}
					add(name, n.Args[i])
				}
			}
			return true
		})
	}
	return found
}

// addFields calls add with the name and the value of each field of a literal.
func addFields(lit *ast.CompositeLit, t types.Type, s *types.Struct, add func(string, ast.Expr)) {
	as := func(field string) string {
		of := t.String()
		if field == "Reason" && (strings.HasSuffix(of, ".Condition") || strings.HasSuffix(of, ".condition")) ||
			field == "name" && strings.HasSuffix(of, "preflight.check") || field == "Check" && strings.HasSuffix(of, "findings.Finding") {
			return "code"
		}
		return field
	}
	for i, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok {
				add(as(id.Name), kv.Value)
			}
		} else {
			add(as(s.Field(i).Name()), e)
		}
	}
}

// TestCodesHaveEntries checks that the page of the codes describes exactly the codes of the source.
func TestCodesHaveEntries(t *testing.T) {
	found := map[string]bool{}
	for _, reason := range admission.Reasons() {
		found[string(reason)] = true
	}
	for _, kind := range hostedpriority.Problems() {
		found[string(kind)] = true
	}
	for _, p := range load(t, "./...") {
		rel := strings.TrimPrefix(p.PkgPath, module)
		if under(rel, "test") || under(rel, "internal/testing") {
			continue
		}
		for code := range codesIn(p) {
			found[code] = true
		}
	}
	const page = "docs/reference/problem-codes.md"
	examples, err := reference.Codes("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{}
	for code := range examples {
		described[code] = true
	}
	if diff := cmp.Diff(found, described); diff != "" {
		t.Errorf("codes (-source +%s):\n%s", page, diff)
	}
}
