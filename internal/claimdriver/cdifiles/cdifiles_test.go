package cdifiles_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/claimdriver/cdifiles"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// TestWrite checks that a file is written once, gets a new time with the same CPUs, is replaced when they differ, and
// is removed.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run/cdi") // the first file makes it
	d := cdifiles.Dir(dir)
	file := filepath.Join(dir, "cpu.cpupoold.io_claim_u-1.json")
	if d.Has("u-1", cpuset.Range(2, 3)) {
		t.Error("a file exists before the first one is written")
	}
	write := func(cpus cpuset.Set) fs.FileInfo {
		t.Helper()
		if err := d.Write("u-1", cpus); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), `"DRA_CPUSET_u-1=`+cpus.String()+`"`) || !d.Has("u-1", cpus) {
			t.Errorf("the file has %s, %v", text, err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("mode %v, %v; want 0644", info.Mode(), err)
		}
		return info
	}
	first := write(cpuset.Range(2, 3))
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
	if got := write(cpuset.Range(2, 3)); !os.SameFile(got, first) || !got.ModTime().After(old) {
		t.Error("the same content is written again, or the file keeps its old time")
	}
	if write(cpuset.Of(4)); d.Has("u-1", cpuset.Range(2, 3)) {
		t.Error("the file still has the earlier CPUs")
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("files %q; want one", got)
	}
	for range 2 {
		if err := d.Remove("u-1"); err != nil || len(names(t, dir)) > 0 {
			t.Errorf("remove: %v, %q remain", err, names(t, dir))
		}
	}
}

// TestLinks checks that no link leads out of the directory: neither at a write nor at a removal.
func TestLinks(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := cdifiles.Dir(dir)
	for _, name := range []string{"cpu.cpupoold.io_claim_u.json", ".cpu.cpupoold.io_claim_u.json.new"} {
		if err := os.Symlink(other, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Write("u", cpuset.Of(1)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(dir, "cpu.cpupoold.io_claim_u.json")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link remains: %v, %v", info, err)
	}
	if err := os.Symlink(other, filepath.Join(dir, "cpu.cpupoold.io_metadata_u_cpus.json")); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove("u"); err != nil || len(names(t, dir)) > 0 {
		t.Errorf("remove: %v, %q remain", err, names(t, dir))
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "kept" {
		t.Errorf("the target of the links has %q, %v", text, err)
	}
}

// TestErrors checks the errors of a directory that is a file, and of UIDs that are no names.
func TestErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d := cdifiles.Dir(file)
	if d.Write("u", cpuset.Of(1)) == nil || d.Remove("u") == nil || d.Has("u", cpuset.Of(1)) {
		t.Error("a file is taken for a directory")
	}
	d = cdifiles.Dir(t.TempDir())
	for _, uid := range []string{"", ".", "../u", "u/x", "-u", "u-", "u\n", strings.Repeat("u", 65)} {
		if err := d.Write(uid, cpuset.Of(1)); err == nil || !strings.Contains(err.Error(), "is not a UID") {
			t.Errorf("write %q: %v; want an error", uid, err)
		}
	}
	if got := names(t, string(d)); len(got) > 0 {
		t.Errorf("files %q; want none", got)
	}
}

// FuzzRemoveOthers checks that a file of any name remains, unless it has the form of a file of the driver.
func FuzzRemoveOthers(f *testing.F) {
	for _, name := range []string{
		"cpu.cpupoold.io_claim_u.json", "cpu.cpupoold.io_metadata_u_cpus.json", ".cpu.cpupoold.io_claim_u.json.new", "cpu.cpupoold.io_claim_.json",
		"cpu.cpupoold.io_claim_known.json", "cpu.cpupoold.io_metadata_u.json", "nic.example.com_claim_u.json", "cpu.cpupoold.io_claim_u.json.new", "..json",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		dir := t.TempDir()
		if filepath.Base(name) != name || name == "." || name == ".." || os.WriteFile(filepath.Join(dir, name), nil, 0o600) != nil {
			t.Skip()
		}
		if err := cdifiles.Dir(dir).RemoveOthers(map[string]bool{"known": true}, 0); err != nil {
			t.Fatal(err)
		}
		_, err := os.Lstat(filepath.Join(dir, name))
		removed := errors.Is(err, fs.ErrNotExist)
		plain := strings.TrimPrefix(strings.TrimSuffix(name, ".new"), ".")
		ours := strings.HasSuffix(plain, ".json") && (strings.HasPrefix(plain, "cpu.cpupoold.io_claim_") || strings.HasPrefix(plain, "cpu.cpupoold.io_metadata_"))
		if removed && !ours {
			t.Errorf("%q is removed", name)
		}
		if !removed && slices.Contains([]string{"cpu.cpupoold.io_claim_u.json", "cpu.cpupoold.io_metadata_u_cpus.json", ".cpu.cpupoold.io_claim_u.json.new"}, name) {
			t.Errorf("%q remains", name)
		}
		if removed && strings.Contains(name, "_known.json") {
			t.Errorf("%q of a known claim is removed", name)
		}
	})
}
