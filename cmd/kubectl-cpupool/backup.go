package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Suffixes of the copies in the directory of a manifest. The name of a copy begins with a dot, because the
// kubelet reads each other file of the directory as a static pod (kubelet config/file.go).
const (
	backupSuffix = ".cpupool-backup"
	editedSuffix = ".cpupool-edited"
)

// copyPath returns the path of a copy of file in dir. An empty dir is the directory of file.
func copyPath(file, dir, suffix string) string {
	dir = cmp.Or(dir, filepath.Dir(file))
	return filepath.Join(dir, "."+filepath.Base(file)+suffix)
}

// content holds the data and the metadata of a regular file.
type content struct {
	data []byte
	info fs.FileInfo
}

// readRegular reads a regular file. A symbolic link is an error, because a rename would replace the link.
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

// checkCopy reports whether path exists with this content, for example after an interrupted run. Other
// content is an error.
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
