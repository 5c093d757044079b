package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programsDir is the directory of the programs in the image.
const programsDir = "usr/local/bin/"

// build makes an index with an image for each architecture that dir has a directory of.
func build(dir, entrypoint string, labels map[string]string) (v1.ImageIndex, error) {
	architectures, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var images []mutate.IndexAddendum
	for _, a := range architectures {
		platform := v1.Platform{OS: "linux", Architecture: a.Name()}
		image, err := imageOf(filepath.Join(dir, a.Name()), entrypoint, platform, labels)
		if err != nil {
			return nil, fmt.Errorf("image for %s: %w", a.Name(), err)
		}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%s has no directory for an architecture; build the programs into %s", dir, filepath.Join(dir, "amd64"))
	}
	return mutate.AppendManifests(empty.Index, images...), nil
}

// imageOf makes the image of the programs in dir.
func imageOf(dir, entrypoint string, platform v1.Platform, labels map[string]string) (v1.Image, error) {
	data, err := layerOf(dir, entrypoint)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = platform.OS, platform.Architecture
	config.Config.Entrypoint = []string{"/" + programsDir + entrypoint}
	config.Config.Labels = labels
	return mutate.ConfigFile(image, config)
}

// layerOf is the tar of the programs in dir, with the directories above them.
func layerOf(dir, entrypoint string) ([]byte, error) {
	programs, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, parent := range []string{"usr/", "usr/local/", programsDir} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: parent, Mode: 0o755}); err != nil {
			return nil, fmt.Errorf("add directory %s: %w", parent, err)
		}
	}
	found := false
	for _, p := range programs {
		found = found || p.Name() == entrypoint
		if err := addFile(w, filepath.Join(dir, p.Name()), programsDir+p.Name(), 0o755); err != nil {
			return nil, err
		}
	}
	if !found {
		return nil, fmt.Errorf("-entrypoint %s is not in %s; build it there, or name another", entrypoint, dir)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return buf.Bytes(), nil
}

// addFile adds a file of the host to a tar.
func addFile(w *tar.Writer, host, name string, mode int64) error {
	data, err := os.ReadFile(host)
	if err != nil {
		return err
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if _, err := w.Write(data); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}
