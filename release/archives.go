package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	data []byte
}

// tarGz packs files for root, with the same time for all.
func tarGz(entries []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := packTar(z, entries, at); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

func packTar(to io.Writer, entries []entry, at time.Time) error {
	w := tar.NewWriter(to)
	for _, e := range entries {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: at}
		if err := w.WriteHeader(h); err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return fmt.Errorf("add %s: %w", e.name, err)
		}
	}
	return w.Close()
}

// zipFile packs files for Windows.
func zipFile(entries []entry, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		h.SetMode(fs.FileMode(e.mode))
		f, err := w.CreateHeader(h)
		if err != nil {
			return nil, fmt.Errorf("add %s: %w", e.name, err)
		}
		if _, err := f.Write(e.data); err != nil {
			return nil, fmt.Errorf("add %s: %w", e.name, err)
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archiveOf returns the name of the archive of a program for a platform.
func (r *release) archiveOf(p program) string {
	extension := ".tar.gz"
	if p.os == "windows" {
		extension = ".zip"
	}
	return strings.Join([]string{p.name, r.version.String(), p.os, p.arch}, "_") + extension
}

// archives packs the programs that users install without a package.
func (r *release) archives(context.Context) error {
	for _, p := range all() {
		if p.isInImageOnly() {
			continue
		}
		entries, err := r.archiveEntries(p)
		if err != nil {
			return err
		}
		pack := tarGz
		if p.os == "windows" {
			pack = zipFile
		}
		data, err := pack(entries, r.time)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(r.out, r.archiveOf(p)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) archiveEntries(p program) ([]entry, error) {
	files := map[string]string{ // by the name in the archive
		p.file():    r.built(p.platform(), p.file()),
		"LICENSE":   r.source("LICENSE"),
		thirdParty:  r.built(thirdParty),
		"README.md": r.source("README.md"),
	}
	if p.name == "cpupoold" {
		files["cpupoold.service"] = r.source("systemd", "cpupoold.service")
		files["config.yaml"] = r.source("systemd", "config.yaml")
	}
	pages, err := r.manPages(p.name)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		files["man/"+filepath.Base(page)] = page
	}
	completions, err := filepath.Glob(r.built("completions", "*", "*"+p.name+"*"))
	if err != nil {
		return nil, err
	}
	for _, c := range completions {
		files["completions/"+filepath.Base(filepath.Dir(c))+"/"+filepath.Base(c)] = c
	}
	return readEntries(files, func(name string) int64 {
		if name == p.file() {
			return 0o755
		}
		return 0o644
	})
}

// manPages returns the manual pages that belong to a program.
func (r *release) manPages(name string) ([]string, error) {
	patterns := map[string][]string{
		"cpupoold":        {"cpupoold*.8", "cpupoold-config.5"},
		"kubectl-cpupool": {"kubectl-cpupool*.1", "cpupool-webhook-config.5"},
	}
	var pages []string
	for _, pattern := range patterns[name] {
		found, err := filepath.Glob(r.source("docs", "reference", "man", pattern))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no manual page %s", pattern)
		}
		pages = append(pages, found...)
	}
	return pages, nil
}

// checksums writes the SHA-256 sums of all release files, for `sha256sum --check`.
func (r *release) checksums(context.Context) error {
	files, err := os.ReadDir(r.out) // sorted
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), f.Name())
	}
	return writeFile(filepath.Join(r.out, "checksums.txt"), []byte(b.String()), 0o644)
}
