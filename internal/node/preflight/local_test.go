package preflight_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/preflight"
)

func TestWritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	public := filepath.Join(dir, "public")
	if err := errors.Join(os.Mkdir(public, 0o755), os.Chmod(public, 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, err string }{
		{"other users can write", public, "mode 0777"},
		{"directory", dir, ""},
		{"can be created", filepath.Join(dir, "a", "b"), ""},
		{"a file", file, "access " + file},
		{"below a file", filepath.Join(file, "a"), "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkError(t, preflight.Writable(c.dir), c.err)
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("Writable changed the directory: %v, %v; want 2 entries", entries, err)
	}
}

func TestLockHolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lock")
	holder := func(want int) {
		t.Helper()
		got, err := preflight.LockHolder(file)
		if err != nil || got != want {
			t.Errorf("holder = %d, %v; want %d", got, err, want)
		}
	}
	holder(0)
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	holder(0)
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	holder(os.Getpid())
	if err := unix.Flock(int(f.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	holder(0)
}

// TestLocal checks that all findings about the machine of the test are complete.
func TestLocal(t *testing.T) {
	good := readArchive(t, "testdata/good.txtar")
	for _, f := range preflight.Run(t.Context(), preflight.Local(), good.configuration()) {
		if f.Check == "" || f.Subject == "" || f.Found == "" {
			t.Errorf("a finding without check, subject or finding: %#v", f)
		}
	}
}
