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
	// checked matches commands that test/deploy parses with the programs.
	checked = regexp.MustCompile(`^(kubectl cpupool|(\./)?cpupoold) `)
	// shell matches other lines that are commands.
	shell = regexp.MustCompile(`^(apt-get|bin/|busctl|chmod|cp|crictl|ctr|curl|dpkg|export|find|findmnt|helm|install|journalctl|kubeadm|kubectl|make|mkdir|` +
		`printf|ps|restorecon|rm|rpm|sed|scp|semanage|sha256sum|skopeo|ssh|systemctl|systemd-tmpfiles|tar) `)
	comment = regexp.MustCompile(`\s+#.*$`)
	notRun  = regexp.MustCompile(`^<!-- not run: \S.* -->\s*$`)
)

// joined returns text with one space between words.
func joined(text string) string { return strings.Join(strings.Fields(text), " ") }

// tests returns the text of all Go tests of the tree, except this package.
func tests(tree fs.FS) (string, error) {
	var all strings.Builder
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		isTest := strings.HasPrefix(name, "test/") || strings.HasSuffix(name, "_test.go")
		if err != nil || d.IsDir() || path.Ext(name) != ".go" || !isTest || path.Dir(name) == "test/docs" {
			return err
		}
		src, err := fs.ReadFile(tree, name)
		all.WriteString(joined(string(src)) + "\n")
		return err
	})
	return all.String(), err
}

// untested returns the commands of a code block that no test contains.
func untested(code, tests string) (commands []string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(code, "\\\n", " "), "\n") {
		command := joined(comment.ReplaceAllString(strings.TrimPrefix(strings.TrimSpace(line), "$ "), ""))
		if shell.MatchString(command+" ") && !checked.MatchString(command+" ") && !strings.Contains(tests, command) {
			commands = append(commands, command)
		}
	}
	return commands
}

// unmarked returns a line for each code block of a guide with a command that no test contains
// and no reason, and for each needless reason.
func unmarked(tree fs.FS, tests string) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, "docs", func(name string, d fs.DirEntry, err error) error {
		isGuide := strings.HasPrefix(name, "docs/how-to/") || path.Dir(name) == "docs/troubleshooting"
		if err != nil || d.IsDir() || path.Ext(name) != ".md" || !isGuide {
			return err
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return ast.Walk(goldmark.New().Parser().Parse(text.NewReader(src)), func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if isCode := n.Kind() == ast.KindFencedCodeBlock || n.Kind() == ast.KindCodeBlock; !entering || !isCode || n.Lines().Len() == 0 {
				return ast.WalkContinue, nil
			}
			before, isHTML := n.PreviousSibling().(*ast.HTMLBlock)
			isMarked := isHTML && notRun.Match(before.Lines().Value(src))
			line := bytes.Count(src[:n.Lines().At(0).Start], []byte("\n")) + 1
			switch commands := untested(string(n.Lines().Value(src)), tests); {
			case len(commands) > 0 && !isMarked:
				found = append(found, fmt.Sprintf("%s:%d: no test runs %q; write <!-- not run: reason --> above the block", name, line, commands[0]))
			case len(commands) == 0 && isMarked:
				found = append(found, fmt.Sprintf("%s:%d: tests run all commands: remove the comment above the block", name, line))
			}
			return ast.WalkContinue, nil
		})
	})
	return found, err
}

// TestCommands checks that a test contains each command of the guides, or that the guide has
// the reason why not. cmd/kubectl-cpupool has the same test of the tutorials.
func TestCommands(t *testing.T) {
	tree := os.DirFS(root)
	all, err := tests(tree)
	if err != nil {
		t.Fatal(err)
	}
	found, err := unmarked(tree, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestUnmarked checks that unmarked finds commands without a test and needless reasons.
func TestUnmarked(t *testing.T) {
	file := func(lines ...string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n"))} }
	tree := fstest.MapFS{
		"docs/how-to/a.md": file("# A", "", "```", "kubectl apply -f a.yaml   # known", "```", "", "    helm install \\", "      other", "",
			"<!-- not run: needs a cluster -->", "```console", "$ kubectl get x", "```", "", "1. Step:", "", "       systemctl restart x", "", "```yaml", "install: x", "```"),
		"docs/how-to/b.md":                     file("# B", "", "<!-- not run: why -->", "```", "kubectl cpupool nodes", "./cpupoold check", "```", "", "<!-- not run: -->", "    rm x"),
		"docs/troubleshooting/README.md":       file("# C", "", "    rm x"),
		"docs/troubleshooting/runbooks/One.md": file("# One", "", "    rm x"),
		"docs/explanation/x.md":                file("# X", "", "    rm x"),
		"test/e2e/a_test.go":                   file("package e2e", "const a = `kubectl apply", "  -f a.yaml`"),
	}
	all, err := tests(tree)
	if err != nil {
		t.Fatal(err)
	}
	got, err := unmarked(tree, all)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ";")
	}
	want := []string{
		`docs/how-to/a.md:7: no test runs "helm install other"`,
		`docs/how-to/a.md:17: no test runs "systemctl restart x"`,
		"docs/how-to/b.md:5: tests run all commands: remove the comment above the block",
		`docs/how-to/b.md:10: no test runs "rm x"`,
		`docs/troubleshooting/README.md:3: no test runs "rm x"`,
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
}
