// Package kernelfs has the mount points of the kernel's file systems, and reads their files. The kernel makes
// their content at each read, and no read of them waits. Package os registers each file that it opens with its
// poller, which takes five more system calls. Dir does not.
package kernelfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is a directory with files of the kernel. It implements fs.FS.
type Dir string

// Open opens a file. The result can only be read and closed.
func (d Dir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	name = string(d) + "/" + name
	for {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return &file{name, fd}, nil
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
}

// ReadDir implements fs.ReadDirFS.
func (d Dir) ReadDir(name string) ([]fs.DirEntry, error) {
	return fs.ReadDir(os.DirFS(string(d)), name)
}

// Stat implements fs.StatFS.
func (d Dir) Stat(name string) (fs.FileInfo, error) { return fs.Stat(os.DirFS(string(d)), name) }

type file struct {
	name string
	fd   int
}

func (f *file) Stat() (fs.FileInfo, error) { return os.Stat(f.name) }

func (f *file) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(f.fd, b)
		switch {
		case errors.Is(err, unix.EINTR): // a signal has interrupted it
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (f *file) Close() error { return unix.Close(f.fd) }
