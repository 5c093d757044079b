package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Only root may give files away.
func TestModeAndOwnerStay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if uid == 0 {
		uid = 4321
	}
	if err := os.Chown(file, uid, os.Getgid()); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o646); err != nil { // more than any umask lets through
		t.Fatal(err)
	}
	check := func(name string) {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Sys().(*syscall.Stat_t).Uid; info.Mode().Perm() != 0o646 || got != uint32(uid) {
			t.Errorf("%s: mode %o of user %d, want 646 of %d", name, info.Mode().Perm(), got, uid)
		}
	}
	for _, step := range []struct{ flag, leaves string }{
		{"--in-place", copyPath(file, "", backupSuffix)},
		{"--restore", file},
	} {
		if code, _, errors := run("", "mutate", step.flag, "-f", file); code != exitOK {
			t.Fatalf("%s: exit code %d, errors %q; want %d", step.flag, code, errors, exitOK)
		}
		check(file)
		check(step.leaves)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v; want the file alone", left, err)
	}
}
