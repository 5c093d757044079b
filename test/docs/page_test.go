package docs_test

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
	"golang.org/x/net/html"
)

// page holds the parts of a Markdown file that links need.
type page struct {
	links   []string        // destinations of links and images
	anchors map[string]bool // of headings, and of HTML elements with an ID
}

// readPages returns all Markdown files of a tree by their paths. It omits test data, and
// folders that Git does not have.
func readPages(tree fs.FS) (map[string]page, error) {
	all := map[string]page{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		all[name], err = parse(src)
		if err != nil {
			return fmt.Errorf("parse %s: %w", name, err)
		}
		return nil
	})
	return all, err
}

// parse reads a page as GitHub does.
func parse(src []byte) (page, error) {
	p := page{anchors: map[string]bool{}}
	used := map[string]int{}
	document := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(src))
	err := ast.Walk(document, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			a := anchor(content(n, src))
			used[a]++
			if used[a] > 1 {
				a = fmt.Sprintf("%s-%d", a, used[a]-1)
			}
			p.anchors[a] = true
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.HTMLBlock:
			p.addHTML(n.Lines().Value(src))
		case *ast.RawHTML:
			p.addHTML(n.Segments.Value(src))
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// addHTML adds the links and IDs of HTML elements.
func (p *page) addHTML(src []byte) {
	for z := html.NewTokenizer(strings.NewReader(string(src))); z.Next() != html.ErrorToken; {
		for _, a := range z.Token().Attr {
			switch a.Key {
			case "href", "src":
				p.links = append(p.links, a.Val)
			case "id", "name":
				p.anchors[a.Val] = true
			}
		}
	}
}

// content returns the text of a node without its markup.
func content(n ast.Node, src []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		switch c := c.(type) {
		case *ast.Text:
			value := c.Segment.Value(src)
			if _, isCode := n.(*ast.CodeSpan); !isCode {
				value = util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(value)))
			}
			b.Write(value)
			if c.SoftLineBreak() || c.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.Image: // GitHub leaves out its text
		default:
			b.WriteString(content(c, src))
		}
	}
	return b.String()
}

// anchor returns the anchor that GitHub gives a heading: its text in lower case, without
// punctuation and symbols, and with hyphens for spaces.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', unicode.In(r, unicode.Letter, unicode.Mark, unicode.Nd, unicode.Pc):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
}

// TestParse checks links and anchors against the rules of GitHub.
func TestParse(t *testing.T) {
	got, err := parse([]byte(strings.Join([]string{
		"# Title: `go test` & _more_", "", "## C++ / a_b", "", "## Ünïcode 2.0", "", "## Again", "", "## Again", "", "### Again", "",
		"Setext", "------", "", "## [A link](x.md) ![picture](y.svg)", "", "## \\*stars\\* &amp; more", "",
		"[one](a.md#b \"title\") [two][ref] <https://example.org/> `[no](code.md)` ![three](<c d.png>)", "", "[ref]: d.md", "",
		"```", "[no](fence.md)", "# no heading", "```", "", "    [no](indented.md)", "",
		"| a |", "|---|", "| [cell](e.md) |", "", `<a id="own" href="f.md">x</a> <!-- [no](comment.md) -->`,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := page{
		links: []string{"x.md", "y.svg", "a.md#b", "d.md", "c d.png", "e.md", "f.md"},
		anchors: map[string]bool{
			"title-go-test--more": true, "c--a_b": true, "ünïcode-20": true, "again": true, "again-1": true, "again-2": true,
			"setext": true, "a-link-": true, "stars--more": true, "own": true,
		},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(page{})); diff != "" {
		t.Errorf("parse (-want +got):\n%s", diff)
	}
}
