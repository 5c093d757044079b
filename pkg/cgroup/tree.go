package cgroup

import (
	"fmt"
	"io"
	"os"

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
	dir  *os.File // the same, to open what is in it
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

// OpenRoot implements Directories.
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
	for err == nil {
		names, err = appendDirectories(names, dir)
	}
	if err != io.EOF { //nolint:errorlint // ReadDir returns it bare
		return nil, err
	}
	return names, nil
}

func (t rootTree) Mkdir(name string) error { return t.root.Mkdir(name, 0o755) }

// Rmdir removes a directory: cgroupfs does not allow the removal of files.
func (t rootTree) Rmdir(name string) error { return t.root.Remove(name) }
