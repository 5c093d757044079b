package main

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
)

// figure matches a link to a row with a figure as its text, like [334 µs](reference/benchmarks.md#repair).
var figure = regexp.MustCompile(`\[(-?[0-9][^\]]*)\]\(([a-z./]*benchmarks\.md)#([a-z0-9-]+)\)`)

// figures returns the README and the pages of docs in which a figure differs from its row, with
// the present figures. A link to a row must have the value of the row as its text.
func (p *page) figures(repository fs.FS) (map[string]string, error) {
	changed := map[string]string{}
	update := func(name string) error {
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		var unknown error
		updated := figure.ReplaceAllStringFunc(string(text), func(link string) string {
			part := figure.FindStringSubmatch(link)
			value, ok := p.values[part[3]]
			if !ok {
				unknown = fmt.Errorf("%s: %s has no row #%s with samples", name, pagePath, part[3])
				return link
			}
			return fmt.Sprintf("[%s](%s#%s)", value, part[2], part[3])
		})
		if updated != string(text) {
			changed[name] = updated
		}
		return unknown
	}
	if err := update("README.md"); err != nil {
		return nil, err
	}
	return changed, fs.WalkDir(repository, "docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" || name == pagePath {
			return err
		}
		return update(name)
	})
}
