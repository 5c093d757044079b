package arch_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/go/packages"
)

// documentsIn returns the types of the documents that a package writes by internal/document,
// also through functions of its own that have the document as a parameter. A generic function
// writes documents of the types of its instances.
func documentsIn(p *packages.Package) []types.Type {
	var all []types.Type
	generic, writers := map[types.Object]bool{}, map[types.Object]int{} // index of the parameter
	calls := func(visit func(decl ast.Decl, call *ast.CallExpr, called types.Object)) {
		for _, f := range p.Syntax {
			for _, decl := range f.Decls {
				ast.Inspect(decl, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					if s, ok := call.Fun.(*ast.SelectorExpr); ok && p.TypesInfo.Uses[s.Sel] != nil {
						visit(decl, call, p.TypesInfo.Uses[s.Sel])
					}
					return true
				})
			}
		}
	}
	calls(func(decl ast.Decl, call *ast.CallExpr, called types.Object) {
		if called.Pkg() == nil || called.Pkg().Path() != module+"internal/document" {
			return
		}
		fn, inFunc := decl.(*ast.FuncDecl)
		if id, ok := call.Args[1].(*ast.Ident); ok && inFunc && types.IsInterface(p.TypesInfo.TypeOf(id)) {
			params := p.TypesInfo.Defs[fn.Name].Type().(*types.Signature).Params()
			for i := range params.Len() {
				if params.At(i) == p.TypesInfo.Uses[id] {
					writers[p.TypesInfo.Defs[fn.Name]] = i
					return
				}
			}
		}
		all = append(all, p.TypesInfo.TypeOf(call.Args[1]))
		if inFunc && fn.Type.TypeParams != nil {
			generic[p.TypesInfo.Defs[fn.Name]] = true
		}
	})
	calls(func(_ ast.Decl, call *ast.CallExpr, called types.Object) {
		if i, ok := writers[called]; ok {
			all = append(all, p.TypesInfo.TypeOf(call.Args[i]))
		}
	})
	for id, instance := range p.TypesInfo.Instances {
		if generic[p.TypesInfo.Uses[id]] {
			all = slices.AppendSeq(all, instance.TypeArgs.Types())
		}
	}
	return all
}

// styleErrors returns the keys of a document that are not camelCase, and the fields that can
// be null: pointers and interfaces without omitempty or omitzero.
func styleErrors(t types.Type, seen map[types.Type]bool) []string {
	if seen[t] || t == nil || encodesItself(t) {
		return nil
	}
	seen[t] = true
	var bad []string
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		return styleErrors(u.Elem(), seen)
	case *types.Slice:
		return styleErrors(u.Elem(), seen)
	case *types.Array:
		return styleErrors(u.Elem(), seen)
	case *types.Map:
		return styleErrors(u.Elem(), seen)
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i)
			key, options, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("json"), ",")
			if key == "-" || !f.Exported() && !f.Anonymous() {
				continue
			}
			if !f.Anonymous() || key != "" {
				if !regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`).MatchString(key) {
					bad = append(bad, fmt.Sprintf("%s.%s: key %q is not camelCase", t, f.Name(), key))
				}
				_, pointer := f.Type().Underlying().(*types.Pointer)
				if (pointer || types.IsInterface(f.Type())) && !strings.Contains(options, "omit") {
					bad = append(bad, fmt.Sprintf("%s.%s can be null: add omitempty", t, f.Name()))
				}
			}
			bad = append(bad, styleErrors(f.Type(), seen)...)
		}
	}
	return bad
}

// encodesItself reports whether values of a type have their own form in JSON.
func encodesItself(t types.Type) bool {
	set := types.NewMethodSet(t)
	return set.Lookup(nil, "MarshalJSON") != nil || set.Lookup(nil, "MarshalText") != nil
}

// TestDocumentsHaveOneStyle checks the types of all JSON documents of the programs.
func TestDocumentsHaveOneStyle(t *testing.T) {
	seen, documents := map[types.Type]bool{}, 0
	for _, p := range load(t, "./cmd/cpupoold", "./cmd/kubectl-cpupool") {
		for _, d := range documentsIn(p) {
			documents++
			for _, bad := range styleErrors(d, seen) {
				t.Error(bad)
			}
		}
	}
	if documents < 29 {
		t.Errorf("%d documents; want at least 29", documents)
	}
}

// TestStyleErrors checks the rules by an example.
func TestStyleErrors(t *testing.T) {
	str := types.Typ[types.String]
	field := func(name string, typ types.Type) *types.Var { return types.NewField(0, nil, name, typ, false) }
	inner := types.NewStruct([]*types.Var{field("A", str), field("B", str)}, []string{`json:"a"`, ""})
	outer := types.NewStruct([]*types.Var{field("L", types.NewSlice(inner)), field("P", types.NewPointer(str)), field("Q", types.NewPointer(str)), field("x", str)},
		[]string{`json:"l_s"`, `json:"p"`, `json:"q,omitempty"`, ""})
	var got []string
	for _, bad := range styleErrors(outer, map[types.Type]bool{}) {
		got = append(got, bad[strings.LastIndex(bad, "}.")+1:])
	}
	slices.Sort(got)
	want := []string{`.B: key "" is not camelCase`, `.L: key "l_s" is not camelCase`, ".P can be null: add omitempty"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}
