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

// writeCopy writes a file that must not be there, with mode and owner of the
// original.
func writeCopy(path string, c content) error {
	there, err := checkCopy(path, c)
	if err != nil || there {
		return err
	}
	pending, err := pend(path, c.data, c.info)
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // the name of a file that stays begins with a dot
	if err := pending.Sync(); err != nil {
		return err
	}
	// Unlike a rename, a link never replaces anything.
	if err := os.Link(pending.Name(), path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// replace gives a file other content in one step, and mode and owner of like.
func replace(path string, data []byte, like fs.FileInfo) error {
	pending, err := pend(path, data, like)
	if err != nil {
		return err
	}
	defer pending.Cleanup() //nolint:errcheck // as above, and nothing when it was renamed
	if err := pending.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// pend writes a new file in the directory of path, which replaces path later.
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

// syncDirectory makes a new name outlast a loss of power.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
