package confined_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/confined"
)

func open(t *testing.T) (d *confined.Dir, path string) {
	t.Helper()
	path = t.TempDir()
	d, err := confined.Open(path, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

// TestForeignKinds checks that no call opens a link, a FIFO or a directory instead of a file.
func TestForeignKinds(t *testing.T) {
	d, path := open(t)
	outside := filepath.Join(t.TempDir(), "outside")
	for name, err := range map[string]error{
		"file": os.WriteFile(outside, []byte("untouched"), 0o644), "link": os.Symlink(outside, path+"/link"), "zero": os.Symlink("/dev/zero", path+"/zero"),
		"fifo": syscall.Mkfifo(path+"/fifo", 0o600), "dir": os.Mkdir(path+"/dir", 0o700), "up": os.Symlink(filepath.Dir(outside), path+"/up"),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"link", "zero", "fifo", "dir", "up"} {
		if b, err := d.Read(name, 100); !errors.Is(err, confined.ErrForeign) {
			t.Errorf("Read(%s) = %q, %v; want ErrForeign", name, b, err)
		}
		if _, err := d.File(name); !errors.Is(err, confined.ErrForeign) {
			t.Errorf("File(%s): %v; want ErrForeign", name, err)
		}
		if name == "dir" {
			continue
		}
		if _, err := d.Sub(name, 0o755); !errors.Is(err, confined.ErrForeign) {
			t.Errorf("Sub(%s): %v; want ErrForeign", name, err)
		}
		if err := d.Write(name, []byte("new"), 0o644); err != nil {
			t.Errorf("Write(%s): %v", name, err)
		}
		if b, err := d.Read(name, 3); err != nil || string(b) != "new" {
			t.Errorf("Read(%s) after Write = %q, %v; want %q", name, b, err, "new")
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "untouched" {
		t.Errorf("outside: %q, %v; want %q", b, err, "untouched")
	}
}

// TestNames checks that each method refuses a name that leads to another directory.
func TestNames(t *testing.T) {
	d, path := open(t)
	if err := os.WriteFile(filepath.Join(path, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	steps := 10
	for _, name := range []string{"", "..", "a/b", "../x", "/etc/passwd", "a\x00b"} {
		_, sub := d.Sub(name, 0o755)
		_, read := d.Read(name, 1)
		_, file := d.File(name)
		_, names := d.Names(name, 1)
		for what, err := range map[string]error{
			"Sub": sub, "Read": read, "File": file, "Names": names, "Write": d.Write(name, nil, 0o600), "Remove": d.Remove(name),
			"Rename from": d.Rename(name, "y"), "Rename to": d.Rename("x", name), "Clear": d.Clear(name, &steps),
		} {
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s(%q): %v; want an error about the name", what, name, err)
			}
		}
	}
}

// TestMounts checks that no call crosses a mount. Only root can mount.
func TestMounts(t *testing.T) {
	d, path := open(t)
	target := filepath.Join(path, "mount")
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("none", target, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	if err := os.WriteFile(filepath.Join(target, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sub("mount", 0o755); !errors.Is(err, unix.EXDEV) {
		t.Errorf("Sub: %v; want EXDEV", err)
	}
	steps := 100
	if err := d.Clear("mount", &steps); err == nil {
		t.Error("Clear removed a mount")
	}
	if _, err := os.Stat(filepath.Join(target, "file")); err != nil {
		t.Errorf("file in the mount: %v", err)
	}
}

// TestClear checks that Clear stops after its steps and follows no link in the tree. IsAside
// accepts the names of the remaining entries.
func TestClear(t *testing.T) {
	d, path := open(t)
	outside := t.TempDir()
	if err := errors.Join(os.WriteFile(outside+"/file", nil, 0o600), os.MkdirAll(path+"/tree/a/b/c/d", 0o700), os.Symlink(outside, path+"/tree/a/link")); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		steps := 2
		err := d.Clear("tree", &steps)
		names, nerr := d.Names(".", 100)
		if nerr != nil {
			t.Fatal(nerr)
		}
		for _, n := range names {
			if !confined.IsAside(n) {
				t.Fatalf("left %q after Clear, which returned %v", n, err)
			}
			steps = 2
			if err := d.Clear(n, &steps); err != nil && !errors.Is(err, confined.ErrUnfinished) {
				t.Fatal(err)
			}
		}
	}
	if names, err := d.Names(".", 100); err != nil || len(names) > 0 {
		t.Errorf("left: %q, %v", names, err)
	}
	if _, err := os.Stat(outside + "/file"); err != nil {
		t.Errorf("file behind a link: %v", err)
	}
}
