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

// Names of files in the directory of a manifest start with a dot. Otherwise the kubelet
// would read them as static pods (kubelet config/file.go).
const (
	backupSuffix = ".cpupool-backup"
	editedSuffix = ".cpupool-edited"
)

// beside returns the name of the file that stores data about a file, in dir, or in the
// file's directory if dir is "".
func beside(file, dir, suffix string) string {
	dir = cmp.Or(dir, filepath.Dir(file))
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
