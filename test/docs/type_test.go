package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// maxWords holds the maximum words of a page by its directory, which is the type of the page.
// The value 0 is no limit: the page is generated, or a list for search.
var maxWords = map[string]int{
	"":                         1500,
	"tutorials":                1200,
	"how-to":                   1900,
	"how-to/install":           1700,
	"how-to/migrate":           1000,
	"troubleshooting":          1800,
	"troubleshooting/runbooks": 400,
	"explanation":              2500,
	"reference":                0,
	"project":                  3000,
	"adr":                      1200,
}

// misfits returns a line for each page below docs without a type, without a first paragraph
// that states its purpose, or with too many words.
func misfits(tree fs.FS) ([]string, error) {
	var found []string
	err := fs.WalkDir(tree, "docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(strings.TrimPrefix(path.Dir(name), "docs"), "/")
		limit, known := maxWords[dir]
		if !known {
			found = append(found, fmt.Sprintf("%s: directory %q has no type of page", name, dir))
			return nil
		}
		text := string(src)
		if n := len(strings.Fields(text)); limit > 0 && n > limit {
			found = append(found, fmt.Sprintf("%s has %d words; the limit for its type is %d: split the page", name, n, limit))
		}
		title, rest, _ := strings.Cut(text, "\n")
		first, _, _ := strings.Cut(strings.TrimLeft(rest, "\n"), "\n\n")
		isText := first != "" && !slices.ContainsFunc([]string{"#", "|", "```", "    ", "- "}, func(p string) bool { return strings.HasPrefix(first, p) })
		if isRunbook := dir == "troubleshooting/runbooks"; !strings.HasPrefix(title, "# ") || !isText && !isRunbook {
			found = append(found, fmt.Sprintf("%s does not start with a title and a paragraph about its purpose", name))
		}
		return nil
	})
	return found, err
}

// TestTypes checks that each page has a type by its directory, a purpose and a limited length.
func TestTypes(t *testing.T) {
	found, err := misfits(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

// TestMisfits checks that misfits finds each kind of page that breaks a rule.
func TestMisfits(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := misfits(fstest.MapFS{
		"docs/README.md":                          file("# Map\n\nThis page is a map.\n"),
		"docs/guides/old.md":                      file("# Old\n\nThis guide.\n"),
		"docs/how-to/list.md":                     file("# List\n\n- item\n"),
		"docs/how-to/none.md":                     file("text\n"),
		"docs/troubleshooting/runbooks/Alert.md":  file("# Alert\n\n## Meaning\n"),
		"docs/troubleshooting/runbooks/Longer.md": file("# Longer\n\n## Meaning\n" + strings.Repeat("word ", 400)),
		"docs/reference/all.md":                   file("# All\n\nThis page lists " + strings.Repeat("word ", 9000)),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`docs/guides/old.md: directory "guides" has no type of page`,
		"docs/how-to/list.md does not start with a title and a paragraph about its purpose",
		"docs/how-to/none.md does not start with a title and a paragraph about its purpose",
		"docs/troubleshooting/runbooks/Longer.md has 404 words; the limit for its type is 400: split the page",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("misfits (-want +got):\n%s", diff)
	}
}
