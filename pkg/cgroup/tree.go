package cgroup

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Open opens the cgroup2 mount at dir, usually /sys/fs/cgroup. Anything but
// cgroup v2 is ErrNotCgroup2: with v1, and with the hybrid layout, there is no
// cpuset in the unified hierarchy.
func Open(dir string) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cgroup mount: %w", err)
	}
	if err := checkMagic(root); err != nil {
		root.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("open cgroup mount %s: %w", dir, err)
	}
	return New(rootTree{root}), nil
}

// checkMagic asks the directory that is open, not the name: what is mounted
// over it afterwards cannot matter.
func checkMagic(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // opened to read
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return fmt.Errorf("statfs: %w", err)
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%w (magic %#x): boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2 there",
			ErrNotCgroup2, st.Type)
	}
	return nil
}

// rootTree is the kernel's tree. os.Root opens component by component and
// follows nothing out of the mount. openat2(2) would do it in one call, but the
// unit's RestrictSUIDSGID= forbids that call: systemd cannot filter its flags.
type rootTree struct {
	root *os.Root
}

func (t rootTree) ReadFile(name string, limit int) ([]byte, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened to read
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("file has more than %d bytes", limit)
	}
	return data, nil
}

// OpenDir implements Directories.
func (t rootTree) OpenDir(name string) (Dir, error) {
	f, err := t.root.OpenFile(name, unix.O_DIRECTORY|unix.O_PATH, 0)
	if err != nil {
		return nil, err
	}
	return rootDir{f}, nil
}

// rootDir is one of its directories. Files are read with plain calls: package os would ask
// the poller for each, which has nothing to say about files that are always ready.
type rootDir struct{ *os.File }

// ReadFile implements Dir. A file is in the directory itself, and no link: there are
// none in cgroupfs.
func (d rootDir) ReadFile(file string, limit int) ([]byte, error) {
	fd, err := openat(int(d.Fd()), file)
	if err != nil {
		return nil, &os.PathError{Op: "openat", Path: d.Name() + "/" + file, Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // opened to read
	data := make([]byte, 0, 256)
	for {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return nil, &os.PathError{Op: "read", Path: d.Name() + "/" + file, Err: err}
		case n == 0:
			return data, nil
		}
		if data = data[:len(data)+n]; len(data) > limit {
			return nil, fmt.Errorf("%s/%s has more than %d bytes", d.Name(), file, limit)
		}
		if len(data) == cap(data) {
			data = slices.Grow(data, len(data))
		}
	}
}

func openat(dir int, file string) (fd int, err error) {
	for {
		if fd, err = unix.Openat(dir, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != unix.EINTR {
			return fd, err
		}
	}
}

func (t rootTree) WriteFile(name, value string) error {
	f, err := t.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	// kernfs takes a value in one piece or refuses it, and reports all errors
	// from write(2): close(2) has nothing to add.
	_, err = f.WriteString(value)
	f.Close() //nolint:errcheck // see above
	return err
}

func (t rootTree) ReadDir(name string) ([]string, error) {
	dir, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened to read
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (t rootTree) Mkdir(name string) error { return t.root.Mkdir(name, 0o755) }

// Rmdir removes a directory: cgroupfs lets nobody remove a file.
func (t rootTree) Rmdir(name string) error { return t.root.Remove(name) }
