package appcpus_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
)

// BenchmarkHostile measures a Write that checks the files of 110 pods. hostile: before each Write, one pod
// has replaced its file with a directory of 200 files.
func BenchmarkHostile(b *testing.B) {
	for _, hostile := range []bool{false, true} {
		b.Run(map[bool]string{false: "quiet", true: "hostile"}[hostile], func(b *testing.B) {
			dir := b.TempDir()
			var entries []appcpus.Entry
			for i := range 110 {
				entries = append(entries, container(fmt.Sprintf("u%d", i), "app"))
			}
			w := appcpus.NewWriter(dir)
			if r := w.Write(entries, true); r.Err != nil {
				b.Fatal(r.Err)
			}
			file := filepath.Join(dir, "containers/u7/app.json")
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if hostile {
					attack(b, file)
				}
				b.StartTimer()
				if r := w.Write(entries, true); r.Err != nil || hostile != (len(r.Faults) > 0) {
					b.Fatalf("Write = %+v", r)
				}
			}
		})
	}
}

// attack replaces a file with a directory of files.
func attack(b *testing.B, file string) {
	b.Helper()
	if err := os.Remove(file); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(file, 0o700); err != nil {
		b.Fatal(err)
	}
	for i := range 200 {
		if err := os.WriteFile(fmt.Sprintf("%s/%d", file, i), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
}
