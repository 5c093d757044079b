package vm

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

// CopyTo copies a file, or a directory with all that is in it, to the absolute path guestPath, whose parents are made as needed. Modes
// are kept, owners are not.
func (m *VM) CopyTo(ctx context.Context, hostPath, guestPath string) error {
	read, write := io.Pipe()
	go func() { write.CloseWithError(writeTar(write, hostPath, path.Clean(guestPath)[1:])) }()
	defer read.Close()
	var stderr bytes.Buffer
	err := m.RunWith(ctx, Files{Stdin: read, Stderr: &stderr}, "tar", "-x", "-C", "/", "--no-same-owner")
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w: %s", hostPath, guestPath, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return nil
}

// writeTar writes hostPath as an archive in which it is called name.
func writeTar(w io.Writer, hostPath, name string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(hostPath, func(file string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(hostPath, file)
		if err != nil {
			return err
		}
		return addToTar(archive, file, path.Join(name, filepath.ToSlash(rel)))
	})
	return errors.Join(err, archive.Close())
}

func addToTar(archive *tar.Writer, file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	var link string
	if info.Mode()&os.ModeSymlink != 0 {
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	header, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header.Name = name
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(archive, f)
	return err
}
