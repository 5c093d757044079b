package kernelfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/cputime"
)

// TestReads checks that Dir reads the same as package os.
func TestReads(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("cpu", 5000)
	for name, content := range map[string]string{"a/long": long, "a/short": "0-7\n", "empty": ""} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, want := kernelfs.Dir(dir), os.DirFS(dir)
	for _, name := range []string{"a/long", "a/short", "empty", "a", "missing", "a/short/x", "../x"} {
		t.Run(name, func(t *testing.T) {
			text, err := fs.ReadFile(got, name)
			wantText, wantErr := fs.ReadFile(want, name)
			if d := cmp.Diff(string(wantText), string(text)); d != "" || (err == nil) != (wantErr == nil) {
				t.Errorf("content, %v instead of %v (-want +got):\n%s", err, wantErr, d)
			}
			if errors.Is(wantErr, fs.ErrNotExist) != errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error = %v; want %v", err, wantErr)
			}
			_, err = fs.Stat(got, name)
			_, wantErr = fs.Stat(want, name)
			if (err == nil) != (wantErr == nil) {
				t.Errorf("stat: %v; want %v", err, wantErr)
			}
		})
	}
	entries, err := fs.ReadDir(got, ".")
	if err != nil || len(entries) != 2 || entries[0].Name() != "a" || !entries[0].IsDir() {
		t.Errorf("entries = %v, %v; want a and empty", entries, err)
	}
}

// BenchmarkRead reads a file of the kernel into a buffer.
func BenchmarkRead(b *testing.B) {
	for name, dir := range map[string]fs.FS{"kernelfs": kernelfs.Dir("/proc"), "os": os.DirFS("/proc")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var text bytes.Buffer
			before := cputime.Of(b)
			for b.Loop() {
				f, err := dir.Open("self/cgroup")
				if err == nil {
					text.Reset()
					_, err = text.ReadFrom(f)
					err = errors.Join(err, f.Close())
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			cputime.Report(b, before)
		})
	}
}
