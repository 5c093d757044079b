package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	licenseclassifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// thirdParty is the file with the licences of the modules that the programs link.
const thirdParty = "THIRD-PARTY-LICENSES.txt"

// dependency is a module that a program links.
type dependency struct {
	name string // path@version
	dir  string
	// texts are the paths below dir of the licences of its linked packages.
	texts   map[string]bool
	licence string // expression of SPDX
}

// accepted returns the licences that the project links: all of them permit redistribution in
// binary form with their text.
func accepted() []string {
	return []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
}

// licences writes the licence texts of all linked modules and of Go.
func (r *release) licences(ctx context.Context) error {
	var err error
	if r.modules, err = r.dependencies(ctx); err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "The programs of cpupoold %s link the following modules. The licence texts follow the list.\n\n", r.version)
	for _, m := range r.modules {
		fmt.Fprintf(&b, "%s: %s\n", m.name, m.licence)
	}
	for _, m := range r.modules {
		for _, name := range slices.Sorted(maps.Keys(m.texts)) {
			text, err := os.ReadFile(filepath.Join(m.dir, name))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), m.name, name, bytes.TrimSpace(text))
		}
	}
	if err := writeFile(r.built(thirdParty), b.Bytes(), 0o644); err != nil {
		return err
	}
	return writeFile(filepath.Join(r.out, thirdParty), b.Bytes(), 0o644)
}

// dependencies returns the modules that any program links on any platform, by name, with Go's
// standard library first.
func (r *release) dependencies(ctx context.Context) ([]*dependency, error) {
	root, err := command(ctx, r.source(), nil, "go", "env", "GOVERSION", "GOROOT")
	if err != nil {
		return nil, err
	}
	golang := strings.Fields(string(root))
	if len(golang) != 2 {
		return nil, fmt.Errorf("go env prints %q", root)
	}
	found := map[string]*dependency{}
	standard := &dependency{name: "std@" + golang[0], dir: golang[1], texts: map[string]bool{"LICENSE": true}}
	for _, p := range all() {
		const format = "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"
		list, err := command(ctx, r.source(), goEnv(p.os, p.arch), "go", "list", "-deps", "-f", format, "./cmd/"+p.name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(list)) {
			f := strings.Split(strings.TrimSpace(line), "\t")
			if len(f) != 3 {
				continue // a package of Go, or of this module
			}
			if found[f[0]] == nil {
				found[f[0]] = &dependency{name: f[0], dir: f[1], texts: map[string]bool{}}
			}
			if err := found[f[0]].addTexts(f[2]); err != nil {
				return nil, err
			}
		}
	}
	modules := []*dependency{standard}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, found[name])
	}
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	for _, m := range modules {
		if err := m.identify(classifier); err != nil {
			return nil, err
		}
	}
	return modules, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([.-].*)?$`) //nolint:gochecknoglobals // a constant

// addTexts adds the licences in the directory of a package, and in those above it in the module.
func (d *dependency) addTexts(dir string) error {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(d.dir, dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceFile.MatchString(e.Name()) && !strings.HasSuffix(e.Name(), ".go") {
				d.texts[path.Join(filepath.ToSlash(relative), e.Name())] = true
			}
		}
		if relative == "." {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// identify sets the module's licences from their texts.
func (d *dependency) identify(classifier *licenseclassifier.Classifier) error {
	found := map[string]bool{}
	for name := range d.texts {
		text, err := os.ReadFile(filepath.Join(d.dir, name))
		if err != nil {
			return err
		}
		for _, m := range classifier.Match(text).Matches {
			if m.MatchType == "License" {
				found[m.Name] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(found))
	if len(names) == 0 {
		return fmt.Errorf("no licence of module %s is known in %d files", d.name, len(d.texts))
	}
	for _, name := range names {
		if !slices.Contains(accepted(), name) {
			return fmt.Errorf("module %s has the licence %s; want one of %s", d.name, name, strings.Join(accepted(), ", "))
		}
	}
	d.licence = strings.Join(names, " AND ")
	return nil
}
