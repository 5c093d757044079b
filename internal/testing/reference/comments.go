package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
)

// Comments are those of all fields of structs in the Go files of some directories, by Type.Field, each
// as one line. Of several fields in one line each has the comment, and a field without one is left out.
func Comments(dirs ...string) (map[string]string, error) {
	all := make(map[string]string)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			addComments(all, f)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no field in %q has a comment", dirs)
	}
	return all, nil
}

func addComments(all map[string]string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		t, is := n.(*ast.TypeSpec)
		if !is {
			return true
		}
		s, is := t.Type.(*ast.StructType)
		if !is {
			return false
		}
		for _, field := range s.Fields.List {
			for _, name := range field.Names {
				if text := strings.Join(strings.Fields(field.Doc.Text()), " "); text != "" {
					all[t.Name.Name+"."+name.Name] = text
				}
			}
		}
		return false
	})
}
