package service_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/confined"
	"github.com/cpupoold/cpupoold/internal/node/service"
)

// TestLock checks that a second holder is refused with the process of the first one, and
// that unlock releases the lock.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	unlock, err := service.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := service.Lock(dir); err == nil || !strings.Contains(err.Error(), "is held by process") {
		t.Errorf("second lock: %v", err)
	}
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	if unlock, err = service.Lock(dir); err != nil {
		t.Fatal(err)
	}
	if err := unlock(); err != nil {
		t.Error(err)
	}
}

// TestLockIsPrivate checks that only root can open the lock file. Earlier versions created it for
// all users: Lock changes the mode, and fails while a daemon of such a version runs.
func TestLockIsPrivate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "lock")
	old, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(old.Chmod(0o644), unix.Flock(int(old.Fd()), unix.LOCK_EX|unix.LOCK_NB)); err != nil {
		t.Fatal(err)
	}
	if _, err := service.Lock(dir); err == nil || !strings.Contains(err.Error(), "another cpupoold holds the node's lock") {
		t.Errorf("lock while an earlier version runs: %v", err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	unlock, err := service.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unlock() }()
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
		t.Errorf("lock file: %v, %v; want mode 0600", info.Mode(), err)
	}
}

// TestLockIsAFile checks that Lock neither follows a link nor waits for a FIFO.
func TestLockIsAFile(t *testing.T) {
	for what, create := range map[string]func(name string) error{
		"link": func(name string) error { return os.Symlink("/dev/zero", name) },
		"FIFO": func(name string) error { return unix.Mkfifo(name, 0o644) },
	} {
		dir := t.TempDir()
		if err := create(filepath.Join(dir, "lock")); err != nil {
			t.Fatal(err)
		}
		if _, err := service.Lock(dir); !errors.Is(err, confined.ErrForeign) {
			t.Errorf("%s: %v; want ErrForeign", what, err)
		}
	}
}
