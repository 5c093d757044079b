package docs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const index = "docs/README.md"

// listed returns how often a page links to each file and folder of the tree.
func listed(tree fs.FS, name string) (map[string]int, error) {
	src, err := fs.ReadFile(tree, name)
	if err != nil {
		return nil, err
	}
	p, err := parse(src)
	if err != nil {
		return nil, err
	}
	links := map[string]int{}
	for _, link := range p.links {
		to, _, ours, err := resolve(name, link)
		if err != nil {
			return nil, err
		}
		if ours {
			links[to]++
		}
	}
	return links, nil
}

// unlisted returns a line for each page below docs that the index does not list exactly
// once. A page of a folder with a README.md may be listed there, and the files of a folder
// without one are listed by a link to the folder.
func unlisted(tree fs.FS) ([]string, error) {
	links, err := listed(tree, index)
	if err != nil {
		return nil, err
	}
	var missing []string
	err = fs.WalkDir(tree, "docs", func(name string, d fs.DirEntry, err error) error {
		isPage := path.Ext(name) == ".md" || strings.HasPrefix(name, "docs/reference/man/")
		if err != nil || d.IsDir() || !isPage || name == index {
			return err
		}
		if n := links[name]; n == 1 {
			return nil
		} else if n > 1 {
			missing = append(missing, fmt.Sprintf("%s lists %s %d times", index, name, n))
			return nil
		}
		readme := path.Join(path.Dir(name), "README.md")
		inFolder, err := listed(tree, readme)
		switch {
		case errors.Is(err, fs.ErrNotExist) && links[path.Dir(name)] == 1:
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case readme == index || inFolder[name] == 0:
			missing = append(missing, fmt.Sprintf("%s does not list %s", index, name))
		}
		return nil
	})
	return missing, err
}

// TestIndex checks that docs/README.md lists each page below docs exactly once.
func TestIndex(t *testing.T) {
	missing, err := unlisted(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Error(m)
	}
}

// TestUnlisted checks that unlisted finds pages that the index omits or repeats.
func TestUnlisted(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := unlisted(fstest.MapFS{
		"docs/README.md":         file("[a](a.md) [b](b.md) [b](b.md#x) [ADRs](adr/README.md) [man](reference/man) [home](../README.md) [picture](p.svg)"),
		"docs/a.md":              file(""),
		"docs/b.md":              file("# x"),
		"docs/c.md":              file(""),
		"docs/p.svg":             file(""),
		"docs/adr/README.md":     file("[1](1.md)"),
		"docs/adr/1.md":          file(""),
		"docs/adr/2.md":          file(""),
		"docs/x/README.md":       file("[y](y.md)"),
		"docs/x/y.md":            file(""),
		"docs/reference/man/d.8": file(""),
		"docs/z/z.md":            file(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/README.md does not list docs/adr/2.md",
		"docs/README.md lists docs/b.md 2 times",
		"docs/README.md does not list docs/c.md",
		"docs/README.md does not list docs/x/README.md",
		"docs/README.md does not list docs/z/z.md",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missing pages (-want +got):\n%s", diff)
	}
}
