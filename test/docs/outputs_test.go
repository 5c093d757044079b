package docs_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

var (
	example  = regexp.MustCompile(`^<!-- example: \S.* -->\s*$`)
	examples = regexp.MustCompile(`(?m)^<!-- examples: \S.* -->$`)
)

// sources holds the text of the tree that can contain the output of a command, with one space
// between words.
type sources struct {
	expected string // tests and their test data
	programs string // Go files of the programs
}

// readSources reads the sources of a tree. It omits this package.
func readSources(tree fs.FS) (sources, error) {
	var expected, programs strings.Builder
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Dir(name) == "test/docs" {
			return err
		}
		to := &expected
		switch ext := path.Ext(name); {
		case ext == ".go" && !strings.HasSuffix(name, "_test.go"):
			to = &programs
		case ext != ".go" && !strings.Contains(name, "testdata/"):
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		to.WriteString(joined(strings.ReplaceAll(string(src), `\"`, `"`)) + "\n")
		return err
	})
	return sources{expected.String(), programs.String()}, err
}

// output returns the lines of a code block that a command prints, with one space between words.
func output(language, code string) (lines []string) {
	if language != "" && language != "text" && language != "console" && language != "json" {
		return nil
	}
	isOutput := true
	for line := range strings.SplitSeq(strings.ReplaceAll(code, "\\\n", " "), "\n") {
		switch line = joined(line); {
		case strings.HasPrefix(line, "$ "):
			isOutput = true
		case shell.MatchString(line+" ") || checked.MatchString(line+" "):
			isOutput = false
		case isOutput && line != "" && line != "…":
			lines = append(lines, line)
		}
	}
	return lines
}

// missing returns the first line that no test expects.
func (s sources) missing(lines []string) (line string, found bool) {
	i := slices.IndexFunc(lines, func(line string) bool { return !strings.Contains(s.expected, line) })
	if i < 0 {
		return "", false
	}
	return lines[i], true
}

// prints reports whether four successive words of a line are in a program or in a test.
func (s sources) prints(line string) bool {
	words := strings.Fields(line)
	n := min(4, len(words))
	for i := range len(words) - n + 1 {
		if part := strings.Join(words[i:i+n], " "); strings.Contains(s.programs, part) || strings.Contains(s.expected, part) {
			return true
		}
	}
	return false
}

// wrongOutputs returns a line for each wrong output in a guide or reference. Each output needs a
// test that expects it, or a comment that calls it an example. A program prints each example. No
// comment is needless. The tutorials have their own test, which runs them.
func (s sources) wrongOutputs(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, "docs", func(name string, d fs.DirEntry, err error) error {
		isPage := slices.ContainsFunc([]string{"how-to", "troubleshooting", "explanation", "reference"}, func(dir string) bool {
			return strings.HasPrefix(name, "docs/"+dir+"/")
		})
		if err != nil || d.IsDir() || path.Ext(name) != ".md" || !isPage {
			return err
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return ast.Walk(goldmark.New().Parser().Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			block, isCode := n.(*ast.FencedCodeBlock)
			if !entering || !isCode || n.Lines().Len() == 0 {
				return ast.WalkContinue, nil
			}
			before, isHTML := n.PreviousSibling().(*ast.HTMLBlock)
			isMarked := isHTML && example.Match(before.Lines().Value(src))
			lines := output(string(block.Language(src)), string(n.Lines().Value(src)))
			at := fmt.Sprintf("%s:%d", name, bytes.Count(src[:n.Lines().At(0).Start], []byte("\n"))+1)
			line, isMissing := s.missing(lines)
			switch isExample := isMarked || examples.Match(src); {
			case isMissing && !isExample:
				found = append(found, fmt.Sprintf("%s: no test expects %q; write <!-- example: reason --> above the block", at, line))
			case isMissing && !slices.ContainsFunc(lines, s.prints):
				found = append(found, fmt.Sprintf("%s: no program prints %q; correct the example", at, line))
			case !isMissing && isMarked:
				found = append(found, at+": tests expect all lines; remove the comment above the block")
			}
			return ast.WalkContinue, nil
		})
	})
	return found, err
}

// TestOutputs checks that a test expects each output that a guide or reference shows, or that the
// page states why the output is an example.
func TestOutputs(t *testing.T) {
	tree := os.DirFS(root)
	s, err := readSources(tree)
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.wrongOutputs(tree)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestWrongOutputs checks that wrongOutputs finds outputs without a test, stale examples and
// needless comments.
func TestWrongOutputs(t *testing.T) {
	file := func(lines ...string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))} }
	tree := fstest.MapFS{
		"docs/how-to/a.md": file("```", "pool  cpus", "```", "", "```", "pool  nodes", "```", "", "<!-- example: numbers differ -->", "```", "took 3 s of the CPU", "```", "",
			"<!-- example: numbers differ -->", "```", "took 3 minutes", "```", "", "<!-- example: none -->", "```", "$ cpupoold plan", "…", "pool cpus", "```",
			"", "```", "cpupoold plan", "no output", "```", "", "```yaml", "pool: nodes", "```"),
		"docs/reference/codes.md": file("<!-- examples: names differ -->", "", "```text", "it took 4 s of the CPU", "```", "", "```text", "an old text", "```"),
		"docs/tutorials/t.md":     file("```", "pool nodes", "```"),
		"x/testdata/a.txtar":      file("pool cpus"),
		"x/x.go":                  file(`fmt.Print("took %d s of the CPU")`),
	}
	s, err := readSources(tree)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.wrongOutputs(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ";")
	}
	want := []string{
		`docs/how-to/a.md:6: no test expects "pool nodes"`,
		`docs/how-to/a.md:16: no program prints "took 3 minutes"`,
		"docs/how-to/a.md:21: tests expect all lines",
		`docs/reference/codes.md:8: no program prints "an old text"`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}
