package cgroup

import (
	"fmt"
	"io/fs"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// directory is the descriptor of a directory in the kernel's tree. Each file in it is opened by
// its plain name, without following links, so that no path leads out of the mount. It uses
// plain system calls: package os registers each file with the poller, which is useless for
// files that are always ready, and sets a finalizer for each.
type directory int

// openDir opens a directory for access to its entries.
func openDir(in int, name string) (Dir, error) {
	fd, err := openat(in, name, unix.O_DIRECTORY|unix.O_PATH)
	if err != nil {
		return nil, err
	}
	return directory(fd), nil
}

// OpenDir implements Dir.
func (d directory) OpenDir(name string) (Dir, error) { return openDir(int(d), name) }

// Close implements Dir.
func (d directory) Close() error { return unix.Close(int(d)) }

const (
	// firstRead has room for nearly all values.
	firstRead = 512
	// shortList is the length up to which one call reads a list if it does not fill the buffer. The
	// kernel puts records into a page until none remain, or until the requested size (Fill in
	// seq_read_iter). TestListInOneRead (test/vm/guest/cgroup) checks that of kernels.
	shortList = 2048
)

// ReadParts implements Dir.
func (d directory) ReadParts(name string, buffer []byte, visit func(part []byte) error) error {
	fd, err := openat(int(d), name, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // opened to read
	room := buffer[:min(len(buffer), shortList)]
	for first := true; ; {
		n, err := unix.Read(fd, room)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return &fs.PathError{Op: "read", Path: name, Err: err}
		case n == 0:
			return nil
		}
		if err := visit(room[:n]); err != nil || first && n < len(room) {
			return err
		}
		first, room = false, buffer
	}
}

// ReadValue implements Dir. One call is enough if it does not fill the buffer: seq_read_iter
// (fs/seq_file.c, since 5.10; seq_read before) returns a file of one record as a whole. kernfs
// makes one record of a file without seq_start (kernfs_seq_start, fs/kernfs/file.c).
func (d directory) ReadValue(name string, data []byte, limit int) ([]byte, error) {
	fd, err := openat(int(d), name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd) //nolint:errcheck // opened to read
	data = slices.Grow(data, firstRead)
	for {
		room := data[len(data):cap(data)]
		n, err := unix.Read(fd, room)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if data = data[:len(data)+n]; len(data) > limit {
			return nil, fmt.Errorf("%s has more than %d bytes", name, limit)
		}
		if n < len(room) {
			return data, nil
		}
		data = slices.Grow(data, 1)
	}
}

// leafLinks is the number of links of a directory without subdirectories: its name and ".".
// Each subdirectory adds its "..": kernfs counts (kernfs_refresh_inode, fs/kernfs/inode.c). File
// systems that do not count report 1.
const leafLinks = 2

// Leaf implements Dir.
func (d directory) Leaf() bool {
	var st unix.Stat_t
	return unix.Fstat(int(d), &st) == nil && st.Nlink == leafLinks
}

// List implements Dir.
func (d directory) List() (fs.ReadDirFile, error) {
	fd, err := openat(int(d), ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "."), nil
}

// openat opens a name in a directory.
func openat(in int, name string, flags int) (fd int, err error) {
	for {
		if fd, err = unix.Openat(in, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, &fs.PathError{Op: "openat", Path: name, Err: err}
	}
	return fd, nil
}
