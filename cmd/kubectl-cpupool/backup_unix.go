//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// writeCopy writes the content to path, with mode and owner of the original. It never replaces a file:
// if path exists with the same content, writeCopy does nothing, and other content is an error.
func writeCopy(path string, c content) error {
	exists, err := checkCopy(path, c)
	if err != nil || exists {
		return err
	}
	pending, err := pend(path, c.data, c.info)
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // the kubelet ignores a file that stays, because its name begins with a dot
	if err := pending.Sync(); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces anything.
	if err := os.Link(pending.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// replace replaces the file path by one with this data in one step, with mode and owner of like.
func replace(path string, data []byte, like fs.FileInfo) error {
	pending, err := pend(path, data, like)
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // as above; without effect after the rename
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// pend returns a temporary file in the directory of path, with the data, and mode and owner of like.
// The caller links or renames it to path.
func pend(path string, data []byte, like fs.FileInfo) (*renameio.PendingFile, error) {
	dir := filepath.Dir(path)
	pending, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithStaticPermissions(like.Mode().Perm()))
	if err != nil {
		return nil, err
	}
	if err := fill(pending, data, like); err != nil {
		_ = pending.Cleanup()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return pending, nil
}

// fill writes the data, and sets the owner of like.
func fill(pending *renameio.PendingFile, data []byte, like fs.FileInfo) error {
	if _, err := pending.Write(data); err != nil {
		return err
	}
	is, err := pending.Stat()
	if err != nil {
		return err
	}
	wantOwner, ok := like.Sys().(*syscall.Stat_t)
	isOwner, okToo := is.Sys().(*syscall.Stat_t)
	if !ok || !okToo || wantOwner.Uid == isOwner.Uid && wantOwner.Gid == isOwner.Gid {
		return nil
	}
	if err := pending.Chown(int(wantOwner.Uid), int(wantOwner.Gid)); err != nil {
		return fmt.Errorf("its owner cannot be kept; run as root or as the owner: %w", err)
	}
	return nil
}

// syncDirectory writes the names in dir to the disk, so that they survive a loss of power.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
