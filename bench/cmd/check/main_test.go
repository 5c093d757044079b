package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.txt")
	if err := os.WriteFile(record, []byte("BenchmarkA-2 10 100 ns/op 1000 B/op 10 allocs/op\nBenchmarkB-2 10 100 ns/op 0 B/op 0 allocs/op\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const b = "BenchmarkB-8 10 100 ns/op 0 B/op 0 allocs/op\n"
	for name, c := range map[string]struct{ now, want string }{
		"same":                {"BenchmarkA-8 10 100 ns/op 1000 B/op 10 allocs/op\n" + b, ""},
		"slower":              {"BenchmarkA-8 10 100000 ns/op 1000 B/op 10 allocs/op\n" + b, ""},
		"less":                {"BenchmarkA-8 10 100 ns/op 1 B/op 1 allocs/op\n" + b, ""},
		"a fifth":             {"BenchmarkA-8 10 100 ns/op 1200 B/op 12 allocs/op\n" + b, ""},
		"more allocations":    {"BenchmarkA-8 10 100 ns/op 1000 B/op 13 allocs/op\n" + b, "A: 13 allocs/op, and 10 in the record"},
		"more bytes":          {"BenchmarkA-8 10 100 ns/op 1300 B/op 10 allocs/op\n" + b, "A: 1300 B/op, and 1000 in the record"},
		"few instead of none": {"BenchmarkA-8 10 100 ns/op 1000 B/op 10 allocs/op\nBenchmarkB-8 10 100 ns/op 32 B/op 2 allocs/op\n", ""},
		"some instead of none": {"BenchmarkA-8 10 100 ns/op 1000 B/op 10 allocs/op\nBenchmarkB-8 10 100 ns/op 32 B/op 3 allocs/op\n",
			"B: 3 allocs/op, and 0 in the record"},
		"not measured": {b, "A: is in the record and was not measured"},
		"nothing":      {"PASS\n", "no results"},
		"an outlier":   {strings.Repeat("BenchmarkA-8 10 100 ns/op 1000 B/op 10 allocs/op\n", 2) + "BenchmarkA-8 10 100 ns/op 9000 B/op 99 allocs/op\n" + b, ""},
	} {
		err := run(record, strings.NewReader(c.now), &strings.Builder{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %q", name, err, c.want)
		}
	}
}
