// Command strings copies the user-facing string literals of Go files into text
// files, each literal on its source line, so that Vale reports the line of the
// Go file.
//
//	strings OUT FILE...
//
// For internal/a/b.go it writes OUT/internal/a/b.go.strings.txt. A literal counts
// as user-facing if it has at least three words and is not in a test file.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: strings OUT FILE...")
		os.Exit(2)
	}
	for _, file := range os.Args[2:] {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		if err := extract(os.Args[1], file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// extract writes the literals of one Go file. A file without such literals has no output.
func extract(out, file string) error {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := map[int]string{}
	last := 0
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec, *ast.Field: // paths and struct tags
			return false
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(n.Value)
			if err != nil || !isProse(text) {
				return true
			}
			line := set.Position(n.Pos()).Line
			for i, part := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
				if n.Value[0] == '"' {
					i = 0 // an interpreted literal stands on one line
				}
				lines[line+i] = strings.TrimSpace(lines[line+i] + " " + part)
				last = max(last, line+i)
			}
			lines[last] = sentence(lines[last])
		}
		return true
	})
	if last == 0 {
		return nil
	}
	var b strings.Builder
	for i := 1; i <= last; i++ {
		b.WriteString(lines[i] + "\n")
	}
	to := filepath.Join(out, file+".strings.txt")
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, []byte(b.String()), 0o644)
}

var words = regexp.MustCompile(`[A-Za-z]{2,}[ ,;:]+[a-zA-Z]{2,}[ ,;:]+[a-zA-Z]{2,}`)

// isProse reports whether text reads like a sentence: three words in a row.
func isProse(text string) bool { return words.MatchString(text) }

// sentence ends text with a period, which separates it from the next line.
func sentence(text string) string {
	if text == "" || strings.ContainsRune(".!?", rune(text[len(text)-1])) {
		return text
	}
	return text + "."
}
