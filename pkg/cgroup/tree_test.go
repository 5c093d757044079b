package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRootTree uses the access to the kernel's tree on an ordinary directory.
func TestRootTree(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "file")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(file, []byte("longer value"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // test
	tree, err := newRootTree(root)
	if err != nil {
		t.Fatal(err)
	}

	if err := tree.WriteFile("a/file", "new"); err != nil {
		t.Error(err)
	}
	if data, err := tree.ReadFile("a/file", 12); string(data) != "newger value" || err != nil {
		t.Errorf("ReadFile = %q, %v; want the file written over and not truncated", data, err)
	}
	if _, err := tree.ReadFile("a/file", 11); err == nil {
		t.Error("a file longer than the limit was read; want an error")
	}
	if err := tree.WriteFile("a/missing", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write to a missing file = %v; want ErrNotExist", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "missing")); err == nil {
		t.Error("the missing file was created; want none")
	}
	if names, err := tree.ReadDir("."); !slices.Equal(names, []string{"a"}) || err != nil {
		t.Errorf("ReadDir = %q, %v; want the directory and no link", names, err)
	}
	for _, name := range []string{"out/x", "../x", "a/../../x"} {
		if err := tree.WriteFile(name, "x"); err == nil {
			t.Errorf("WriteFile(%q) left the directory; want an error", name)
		}
	}
}

// TestOpenedDirectory checks that all reads are in the opened directory, and neither in
// another one nor behind a link.
func TestOpenedDirectory(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("0,2,", 1000)
	err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(filepath.Join(dir, "a", "file"), []byte(long), 0o600),
		os.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600), os.Symlink("../secret", filepath.Join(dir, "a", "link")), os.Symlink("a", filepath.Join(dir, "b")))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close() //nolint:errcheck // test
	tree, err := newRootTree(root)
	if err != nil {
		t.Fatal(err)
	}
	top, err := tree.OpenRoot()
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close() //nolint:errcheck // test
	a, err := top.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string, buffer []byte) (data []byte, err error) {
		err = a.ReadParts(name, buffer, func(part []byte) error { data = append(data, part...); return nil })
		return data, err
	}
	for _, size := range []int{0, 1, firstRead - 1, firstRead, firstRead + 1, shortList - 1, shortList, shortList + 1, len(long) - 1} {
		if err := os.WriteFile(filepath.Join(dir, "a", "list"), []byte(long[:size]), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, room := range []int{1, firstRead, shortList, shortList + 1, 2 * len(long)} {
			if data, err := read("list", make([]byte, room)); string(data) != long[:size] || err != nil {
				t.Errorf("bytes = %d of %d with room for %d, %v; want all", len(data), size, room, err)
			}
		}
	}
	stop := errors.New("stop")
	if err := a.ReadParts("file", make([]byte, 100), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("ReadParts = %v; want the error of visit", err)
	}
	before := []byte("so far ")
	if data, err := a.ReadValue("file", before, len(before)+len(long)); string(data) != "so far "+long || err != nil {
		t.Errorf("a value of %d bytes, %v; want %d", len(data), err, len(before)+len(long))
	}
	if _, err := a.ReadValue("file", nil, len(long)-1); err == nil {
		t.Error("a value longer than the limit was read; want an error")
	}
	children := func(d Dir) (names []string) {
		if err := d.Directories(func(name string) bool { names = append(names, name); return true }); err != nil {
			t.Error(err)
		}
		return names
	}
	if names := children(top); top.Leaf() || !slices.Equal(names, []string{"a"}) {
		t.Errorf("Leaf = %t, directories = %q; want the directory and no link", top.Leaf(), names)
	}
	if names := children(a); len(names) > 0 {
		t.Errorf("directories = %q; want none", names)
	}
	if _, err := read("link", make([]byte, 10)); err == nil {
		t.Error("a link was followed; want an error")
	}
	for _, name := range []string{"file", "link"} {
		if _, err := a.OpenDir(name); err == nil {
			t.Errorf("%s was opened as a directory; want an error", name)
		}
	}
	if _, err := top.OpenDir("b"); err == nil {
		t.Error("a link to a directory was followed; want an error")
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "a")), os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(filepath.Join(dir, "a", "file"), []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, err := read("file", make([]byte, 10)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another directory of the name is read: %q, %v", data, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := top.OpenDir("missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenDir of a missing directory = %v", err)
	}
}

func TestOpenRefusesOtherFileSystems(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, ErrNotCgroup2) {
		t.Errorf("Open = %v; want ErrNotCgroup2", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of a missing directory = %v; want ErrNotExist", err)
	}
}
