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
	tree := rootTree{root}

	if err := tree.WriteFile("a/file", "new"); err != nil {
		t.Error(err)
	}
	if data, err := tree.ReadFile("a/file", 12); string(data) != "newger value" || err != nil {
		t.Errorf("ReadFile = %q, %v; want the file written over and not truncated", data, err)
	}
	if _, err := tree.ReadFile("a/file", 11); err == nil {
		t.Error("a file longer than the limit was read")
	}
	if err := tree.WriteFile("a/missing", "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("write to a missing file = %v; want ErrNotExist", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "missing")); err == nil {
		t.Error("the missing file was created")
	}
	if names, err := tree.ReadDir("."); !slices.Equal(names, []string{"a"}) || err != nil {
		t.Errorf("ReadDir = %q, %v; want the directory and no link", names, err)
	}
	for _, name := range []string{"out/x", "../x", "a/../../x"} {
		if err := tree.WriteFile(name, "x"); err == nil {
			t.Errorf("WriteFile(%q) went out", name)
		}
	}
}

// TestOpenedDirectory: what is read is in the directory that was opened, whole, and
// neither elsewhere nor at the other end of a link.
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
	tree := rootTree{root}
	a, err := tree.OpenDir("a")
	if err != nil {
		t.Fatal(err)
	}
	if data, err := a.ReadFile("file", len(long)); string(data) != long || err != nil {
		t.Errorf("%d bytes, %v; want %d", len(data), err, len(long))
	}
	if _, err := a.ReadFile("file", len(long)-1); err == nil {
		t.Error("a file longer than the limit was read")
	}
	if _, err := a.ReadFile("link", 10); err == nil {
		t.Error("a link was followed")
	}
	if _, err := tree.OpenDir("a/file"); err == nil {
		t.Error("a file was opened as a directory")
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "a")), os.Mkdir(filepath.Join(dir, "a"), 0o700), os.WriteFile(filepath.Join(dir, "a", "file"), []byte("another"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if data, err := a.ReadFile("file", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another directory of the name is read: %q, %v", data, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := tree.OpenDir("a/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenDir of what is missing = %v", err)
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
