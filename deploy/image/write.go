package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// write makes a tar of OCI's layout (image-spec, image-layout.md) with one image under a
// name. The index of the layout refers to the image's own index, which has the
// architectures. An import of the tar creates one name for all of them.
func write(file string, image v1.ImageIndex, tag name.Tag) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	named := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
		Annotations: map[string]string{
			"io.containerd.image.name":          tag.Name(), // containerd and docker take the whole name from it
			"org.opencontainers.image.ref.name": tag.TagStr(),
		},
	}})
	if _, err := layout.Write(dir, named); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	// A reader must never see half an image under the final name.
	part := file + ".part"
	if err := pack(part, dir); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", part, err), ignoreMissing(os.Remove(part)))
	}
	return os.Rename(part, file)
}

// pack makes a tar of a directory's files, in the order of their names.
func pack(file, dir string) (err error) {
	out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return addFile(w, path, filepath.ToSlash(name), 0o644)
	})
	return errors.Join(err, w.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
