package docs_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const (
	// root is the folder of the repository, seen from this package.
	root = "../.."
	// published is the address of a file of the repository on GitHub.
	published = "https://github.com/cpupoold/cpupoold/blob/main/"
)

// resolve returns the path in the repository and the anchor of a link on a page. It
// returns false for a link to another site.
func resolve(from, link string) (to, anchor string, ours bool, err error) {
	if rest, ok := strings.CutPrefix(link, published); ok {
		link = "/" + rest
	}
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "", "", false, err
	}
	switch {
	case u.Path == "":
		to = from
	case strings.HasPrefix(u.Path, "/"):
		to = path.Clean(u.Path[1:])
	default:
		to = path.Join(path.Dir(from), u.Path)
	}
	return to, u.Fragment, true, nil
}

// brokenLinks returns a line for each link that leads to no file or heading of the tree.
func brokenLinks(tree fs.FS) ([]string, error) {
	pages, err := readPages(tree)
	if err != nil {
		return nil, err
	}
	var broken []string
	for _, from := range slices.Sorted(maps.Keys(pages)) {
		for _, link := range pages[from].links {
			to, anchor, ours, err := resolve(from, link)
			switch {
			case err != nil:
				broken = append(broken, fmt.Sprintf("%s: %v", from, err))
				continue
			case !ours:
				continue
			case !fs.ValidPath(to):
				broken = append(broken, fmt.Sprintf("%s: link %s leaves the repository", from, link))
				continue
			}
			info, err := fs.Stat(tree, to)
			if err != nil {
				broken = append(broken, fmt.Sprintf("%s: link %s: no file %s", from, link, to))
				continue
			}
			if info.IsDir() {
				to = path.Join(to, "README.md")
			}
			if anchor != "" && !pages[to].anchors[anchor] {
				broken = append(broken, fmt.Sprintf("%s: link %s: %s has no heading #%s", from, link, to, anchor))
			}
		}
	}
	return broken, nil
}

// TestLinks checks that each link to a file of the repository leads to an existing file,
// and each anchor to an existing heading.
func TestLinks(t *testing.T) {
	broken, err := brokenLinks(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range broken {
		t.Error(b)
	}
}

// TestBrokenLinks checks that brokenLinks finds each kind of broken link.
func TestBrokenLinks(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got, err := brokenLinks(fstest.MapFS{
		"README.md": file("# Top\n[a](docs/a.md) [b](docs/a.md#two) [c](#top) [d](docs) [e](docs/#index) [f](https://example.org/x.md) [g](main.go)\n" +
			"[h](/docs/a.md#one) [i](" + published + "docs/a.md#one) [j](docs/with%20space.md)"),
		"docs/README.md":          file("# Index\n[up](../README.md#top) [out](../../other) [gone](b.md) ![gone](b.svg)"),
		"docs/a.md":               file("# One\n[x](a.md#one) [x](#three)\n[x](/docs/none.md) [x](" + published + "none.md)"),
		"docs/with space.md":      file("[x](../main.go#one)"),
		"main.go":                 file("package main"),
		"testdata/case.md":        file("[x](gone.md)"),
		".hidden/page.md":         file("[x](gone.md)"),
		"test/testdata/broken.md": file("[x](gone.md)"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md: link docs/a.md#two: docs/a.md has no heading #two",
		"docs/README.md: link ../../other leaves the repository",
		"docs/README.md: link b.md: no file docs/b.md",
		"docs/README.md: link b.svg: no file docs/b.svg",
		"docs/a.md: link #three: docs/a.md has no heading #three",
		"docs/a.md: link /docs/none.md: no file docs/none.md",
		"docs/a.md: link " + published + "none.md: no file none.md",
		"docs/with space.md: link ../main.go#one: main.go has no heading #one",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken links (-want +got):\n%s", diff)
	}
}
