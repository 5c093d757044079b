package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

type file struct {
	host, guest string
	mode        int64 // permission bits as in chmod(2)
}

type spec struct {
	entrypoint, cmd []string
	files           []file
}

// build makes the image, for the architecture of this program.
func (s spec) build() (v1.Image, error) {
	layer, err := s.layer()
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(layer)), nil
	})
	if err != nil {
		return nil, fmt.Errorf("make layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read image configuration: %w", err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	c.Config.Entrypoint, c.Config.Cmd = s.entrypoint, s.cmd
	return mutate.ConfigFile(img, c)
}

// layer is the tar of all files, parents first.
func (s spec) layer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, dir := range s.parents() {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add directory %s: %w", dir, err)
		}
	}
	for _, f := range s.files {
		data, err := os.ReadFile(f.host)
		if err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.guest, "/"), Mode: f.mode, Size: int64(len(data))}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.guest, err)
		}
		if _, err := w.Write(data); err != nil {
			return nil, fmt.Errorf("add %s: %w", f.guest, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finish layer: %w", err)
	}
	return buf.Bytes(), nil
}

// parents lists the directories that the files need, without the root, each before what is in it.
func (s spec) parents() []string {
	var dirs []string
	for _, f := range s.files {
		for d := path.Dir(f.guest); d != "/"; d = path.Dir(d) {
			dirs = append(dirs, strings.TrimPrefix(d, "/"))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
