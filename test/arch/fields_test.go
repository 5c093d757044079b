package arch_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// foreignWrites returns the places of a package that write a field of a type which
// another package below internal/node declares, except a record. A write of an element of a map
// or slice field is one too, and so is delete or clear. Building a value is none: a local
// variable of the struct type itself, which no other code can see.
func foreignWrites(p *packages.Package) []string {
	var found []string
	report := func(e ast.Expr) {
		if sel, owner := foreignField(p, e); sel != nil && !isLocalValue(p, sel.X) {
			found = append(found, fmt.Sprintf("%s: writes %s.%s", p.Fset.Position(sel.Pos()), owner, sel.Sel.Name))
		}
	}
	for _, f := range p.Syntax {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if n.Tok != token.DEFINE {
					for _, e := range n.Lhs {
						report(e)
					}
				}
			case *ast.IncDecStmt:
				report(n.X)
			case *ast.RangeStmt:
				if n.Tok == token.ASSIGN {
					report(n.Key)
					report(n.Value)
				}
			case *ast.CallExpr:
				if id, ok := n.Fun.(*ast.Ident); ok && (id.Name == "delete" || id.Name == "clear") {
					if _, builtin := p.TypesInfo.Uses[id].(*types.Builtin); builtin {
						report(n.Args[0])
					}
				}
			}
			return true
		})
	}
	return found
}

// foreignField returns the selector of a field of another package's type that an
// assignment to e changes, and the type's name. It returns nil for any other e.
func foreignField(p *packages.Package, e ast.Expr) (*ast.SelectorExpr, string) {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.SelectorExpr:
			s := p.TypesInfo.Selections[x]
			if s == nil || s.Kind() != types.FieldVal {
				return nil, ""
			}
			field := s.Obj()
			if field.Pkg() == nil || field.Pkg() == p.Types || !strings.HasPrefix(field.Pkg().Path(), module+"internal/node/") {
				return nil, ""
			}
			t := deref(p.TypesInfo.TypeOf(x.X))
			if isRecord(t) {
				return nil, ""
			}
			return x, types.TypeString(t, func(q *types.Package) string { return q.Name() })
		default:
			return nil, ""
		}
	}
}

// isRecord reports whether a type is data without rules: an exported struct of exported
// fields, without a method that changes it. Its values pass between packages, which
// fill them in: a pod for the planner, a target, a page of metrics.
func isRecord(t types.Type) bool {
	named, ok := t.(*types.Named)
	if !ok || !named.Obj().Exported() {
		return false
	}
	for m := range named.Methods() {
		if _, ptr := m.Signature().Recv().Type().(*types.Pointer); ptr {
			return false
		}
	}
	st, ok := named.Underlying().(*types.Struct)
	if !ok {
		return false
	}
	for f := range st.Fields() {
		if !f.Exported() {
			return false
		}
	}
	return true
}

func deref(t types.Type) types.Type {
	if ptr, ok := t.Underlying().(*types.Pointer); ok {
		return ptr.Elem()
	}
	return t
}

// isLocalValue reports whether e is a local variable, or a field of one, that is reached
// without a pointer, map or slice.
func isLocalValue(p *packages.Package, e ast.Expr) bool {
	if _, ptr := p.TypesInfo.TypeOf(e).Underlying().(*types.Pointer); ptr {
		return false
	}
	switch x := e.(type) {
	case *ast.ParenExpr:
		return isLocalValue(p, x.X)
	case *ast.SelectorExpr:
		s := p.TypesInfo.Selections[x]
		return s != nil && !s.Indirect() && isLocalValue(p, x.X)
	case *ast.Ident:
		v, ok := p.TypesInfo.Uses[x].(*types.Var)
		return ok && v.Parent() != p.Types.Scope()
	}
	return false
}

// TestFieldsHaveOneWriter checks that a package of cpupoold writes no field of a type of
// another package: the package that declares a type keeps its rules.
func TestFieldsHaveOneWriter(t *testing.T) {
	for _, p := range load(t, "./cmd/cpupoold", "./internal/node/...") {
		for _, w := range foreignWrites(p) {
			t.Errorf("%s: give the type a method with a name of the domain", strings.TrimPrefix(w, "../../"))
		}
	}
}
