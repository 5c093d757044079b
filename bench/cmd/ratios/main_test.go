package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	const text = `goos: linux
BenchmarkParse/512/cpupoold-2   10  100 ns/op  8 B/op  1 allocs/op
BenchmarkParse/512/cpupoold-2   10  300 ns/op  8 B/op  1 allocs/op
BenchmarkParse/512/cpupoold-2   10  110 ns/op  8 B/op  1 allocs/op
BenchmarkParse/512/k8s.io-utils-2   10  2200 ns/op  80 B/op  9 allocs/op
BenchmarkReview/whole-2   10  5 ns/op  3000 cpu-ns/op
BenchmarkReview/coding-2   10  9 ns/op  1500 cpu-ns/op
BenchmarkOther/kubelet-2   10  1 ns/op
PASS
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run([]string{file}, &out); err != nil {
		t.Fatal(err)
	}
	const want = `| | against | cpupoold | the other | times | allocations |
|---|---|---|---|---|---|
| Parse/512 | k8s.io-utils | 110 ns | 2.2 µs | 20 | 1, 9 |
| Review | coding | 3 µs | 1.5 µs | 0.5 |  |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := os.WriteFile(file, []byte("PASS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file}, &out); err == nil || !strings.Contains(err.Error(), "no results") {
		t.Errorf("error %v", err)
	}
}
