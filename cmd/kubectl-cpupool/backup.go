package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

// What is left beside a manifest begins with a dot, or in its directory the kubelet
// would take it for one more static pod (kubelet config/file.go).
const (
	backupSuffix = ".cpupool-backup"
	editedSuffix = ".cpupool-edited"
)

// beside is the name of what is kept about a file, in dir, or in its own directory
// where dir is "".
func beside(file, dir, suffix string) string {
	if dir == "" {
		dir = filepath.Dir(file)
	}
	return filepath.Join(dir, "."+filepath.Base(file)+suffix)
}

// content is a regular file as it was found.
type content struct {
	data []byte
	info fs.FileInfo
}

// readRegular reads a file that can be replaced by another of its name.
func readRegular(file string) (content, error) {
	info, err := os.Lstat(file)
	switch {
	case err != nil:
		return content{}, err
	case info.Mode().Type() == fs.ModeSymlink:
		to, _ := os.Readlink(file)
		return content{}, fmt.Errorf("%s is a symbolic link to %s, which would be replaced by a file; name the file instead", file, to)
	case !info.Mode().IsRegular():
		return content{}, irregular(file, info.Mode().Type())
	}
	data, err := os.ReadFile(file)
	return content{data, info}, err
}

// checkCopy returns whether a copy with this content is there already, as after a
// run that was cut off; one with another content is an error.
func checkCopy(path string, c content) (bool, error) {
	there, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if !bytes.Equal(there, c.data) {
		return false, fmt.Errorf("%s exists and is of another version of the file; put it back with --restore, or move it away", path)
	}
	return true, nil
}

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
	defer pending.Cleanup() //nolint:errcheck // what is left begins with a dot
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

// pend writes a file beside path that is to become path.
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
