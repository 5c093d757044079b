package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// link makes a hard link with its directory.
func link(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.Link(from, to)
}

// readIndex returns the only descriptor in the index of an OCI layout, which is a tar.
func readIndex(file string) (v1.Descriptor, error) {
	f, err := os.Open(file)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return v1.Descriptor{}, fmt.Errorf("%s has no index.json", file)
		}
		if err != nil {
			return v1.Descriptor{}, fmt.Errorf("read %s: %w", file, err)
		}
		if h.Name != "index.json" {
			continue
		}
		var m v1.IndexManifest
		if err := json.NewDecoder(r).Decode(&m); err != nil {
			return v1.Descriptor{}, fmt.Errorf("parse index.json of %s: %w", file, err)
		}
		if len(m.Manifests) != 1 {
			return v1.Descriptor{}, fmt.Errorf("index.json of %s has %d manifests; want one", file, len(m.Manifests))
		}
		return m.Manifests[0], nil
	}
}
