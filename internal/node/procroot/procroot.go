// Package procroot shows the file system as another process sees it. The daemon's pod has only a
// few directories of the host. It reads the others through /proc/PID/root and /proc/PID/cwd.
//
// The kernel resolves an absolute link below /proc/PID/root from the root of the reader. This
// package resolves links from the root of the process. It holds no state.
package procroot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// maxLinks is the number of links on the way to a file that the kernel follows (path_resolution(7)).
const maxLinks = 40

// FS is the file system of a process.
type FS struct {
	host fs.FS
	proc string // the directory of the process below host; empty: the host itself
}

// Of returns the file system of the process pid. Host is the file system of the reader, with
// /proc. If the reader cannot see the root of the process, Of returns the reader's file system.
func Of(host fs.FS, pid int) FS {
	proc := "proc/" + strconv.Itoa(pid)
	if info, err := fs.Stat(host, proc+"/root"); err != nil || !info.IsDir() {
		return FS{host: host}
	}
	return FS{host, proc}
}

// Host returns the file system of the reader, to which names of Name belong.
func (f FS) Host() fs.FS { return f.host }

// Name returns the name below host of a file of the process, without links. A relative name begins
// at the working directory of the process, or at the root if that directory is unknown.
func (f FS) Name(name string) (string, error) {
	root, at := ".", "."
	if f.proc != "" {
		root = f.proc + "/root"
		if at = root; !path.IsAbs(name) {
			at = f.proc + "/cwd"
		}
	}
	first := at
	links := 0
	for rest := name; rest != ""; {
		var part string
		switch part, rest, _ = strings.Cut(rest, "/"); part {
		case "", ".":
			continue
		case "..":
			if at != root && at != first {
				at = path.Dir(at)
			}
			continue
		}
		at = path.Join(at, part)
		info, err := fs.Lstat(f.host, at)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue // opening the file returns the error
		}
		target, err := fs.ReadLink(f.host, at)
		if links++; err == nil && links > maxLinks {
			err = &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
		}
		if err != nil {
			return "", err
		}
		if at = path.Dir(at); path.IsAbs(target) {
			at = root
		}
		rest = target + "/" + rest
	}
	return at, nil
}

// Open implements fs.FS.
func (f FS) Open(name string) (fs.File, error) {
	at, err := f.absolute("open", name)
	if err != nil {
		return nil, err
	}
	return f.host.Open(at)
}

// Stat implements fs.StatFS: a socket cannot be opened.
func (f FS) Stat(name string) (fs.FileInfo, error) {
	at, err := f.absolute("stat", name)
	if err != nil {
		return nil, err
	}
	return fs.Stat(f.host, at)
}

func (f FS) absolute(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return f.Name("/" + name)
}

// MaxFile is the maximum size in bytes of a file of another program. Real files have some kilobytes.
const MaxFile = 1 << 20

var errNotRegular = errors.New("not a regular file")

// ReadFile reads a regular file of at most MaxFile bytes. The opening of a FIFO would wait for a writer. A
// character device is empty: a link to /dev/null masks the file of a package.
func ReadFile(root fs.FS, name string) ([]byte, error) {
	switch info, err := fs.Stat(root, name); {
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeCharDevice != 0:
		return nil, nil
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("read %s: more than %d bytes", name, MaxFile)
	}
	return b, err
}
