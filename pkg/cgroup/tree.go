package cgroup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Open opens the cgroup2 mount at dir, usually /sys/fs/cgroup. Anything but
// cgroup v2 is ErrNotCgroup2: with v1, and with the hybrid layout, there is no
// cpuset in the unified hierarchy.
func Open(dir string) (*FS, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cgroup mount: %w", err)
	}
	tree, err := newRootTree(root)
	if err == nil {
		err = checkMagic(tree.dir)
	}
	if err != nil {
		root.Close() //nolint:errcheck // nothing was written
		return nil, fmt.Errorf("open cgroup mount %s: %w", dir, err)
	}
	return New(tree), nil
}

// checkMagic checks the open directory, not the name: a later mount over it has
// no effect.
func checkMagic(dir *os.File) error {
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
// follows nothing out of the mount. Only the kernel and root write there, so that no
// stricter rule is needed (package internal/node/confined has one).
type rootTree struct {
	root *os.Root
	dir  *os.File // the same, to open its files
}

func newRootTree(root *os.Root) (rootTree, error) {
	dir, err := root.OpenFile(".", unix.O_DIRECTORY|unix.O_PATH, 0)
	return rootTree{root, dir}, err
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

func (t rootTree) OpenRoot() (Dir, error) { return openDir(int(t.dir.Fd()), ".") }

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
	var names []string
	err = directories(dir, func(name string) bool {
		names = append(names, name)
		return true
	})
	return names, err
}

// listed is the number of entries that are read from a directory at once. A cgroup has about 60 files.
const listed = 256

// directories calls visit with the names of the directories in dir, until visit returns false.
func directories(dir *os.File, visit func(name string) bool) error {
	for {
		entries, err := dir.ReadDir(listed)
		for _, e := range entries {
			if e.IsDir() && !visit(e.Name()) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func (t rootTree) Mkdir(name string) error { return t.root.Mkdir(name, 0o755) }

// Rmdir removes a directory: cgroupfs does not allow the removal of files.
func (t rootTree) Rmdir(name string) error { return t.root.Remove(name) }

// maxCPUs is the largest NR_CPUS that x86 and arm64 can be built with; the kernel
// refuses masks that are shorter than its own.
const maxCPUs = 8192

// Inside implements Threads. An idle daemon calls it for each thread of each container, so it
// builds no set from the mask.
func (rootTree) Inside(tid int, cpus cpuset.Set) (bool, error) {
	var mask unix.CPUSet // for 1024 CPUs; the kernel returns EINVAL for more
	err := unix.SchedGetaffinity(tid, &mask)
	if err == unix.EINVAL {
		large := unix.NewCPUSet(maxCPUs)
		err = unix.SchedGetaffinityDynamic(tid, large)
		return inMask(large, cpus), err
	}
	return inMask(mask[:], cpus), err
}

// inMask reports whether all CPUs of a mask are among cpus.
func inMask[W ~uint32 | ~uint64](mask []W, cpus cpuset.Set) bool {
	for i, word := range mask {
		for ; word != 0; word &= word - 1 {
			if !cpus.Contains(i*8*int(unsafe.Sizeof(word)) + bits.TrailingZeros64(uint64(word))) {
				return false
			}
		}
	}
	return true
}

func (rootTree) Unbind(tid int) error {
	mask := unix.NewCPUSet(maxCPUs)
	mask.Fill()
	return unix.SchedSetaffinityDynamic(tid, mask)
}

// directory is the descriptor of a directory in the kernel's tree. Each file in it is opened by
// its plain name, without following links, so that no path leads out of the mount. It uses
// plain system calls: package os registers each file with the poller, which is useless for
// files that are always ready, and sets a finalizer for each.
type directory int

func openDir(in int, name string) (Dir, error) {
	fd, err := openat(in, name, unix.O_DIRECTORY|unix.O_PATH)
	if err != nil {
		return nil, err
	}
	return directory(fd), nil
}

func (d directory) OpenDir(name string) (Dir, error) { return openDir(int(d), name) }

func (d directory) Close() error { return unix.Close(int(d)) }

const (
	// firstRead has room for nearly all values.
	firstRead = 512
	// shortList is the length up to which one call reads a list if it does not fill the buffer. The
	// kernel puts records into a page until none remain, or until the requested size (Fill in
	// seq_read_iter). TestListInOneRead (test/vm/guest/cgroup) checks that of kernels.
	shortList = 2048
)

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

func (d directory) Leaf() bool {
	var st unix.Stat_t
	return unix.Fstat(int(d), &st) == nil && st.Nlink == leafLinks
}

func (d directory) Directories(visit func(name string) bool) error {
	fd, err := openat(int(d), ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close() //nolint:errcheck // opened to read
	return directories(dir, visit)
}

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
