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
		err := run(record, "amd64", strings.NewReader(c.now), &strings.Builder{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %q", name, err, c.want)
		}
	}
}

// The record has a third fewer instructions, so the measurement is a regression without
// more allocations.
func TestRunInstructions(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.txt")
	const text = "pkg: github.com/cpupoold/cpupoold/pkg/pools\nBenchmarkBuild/cold-1 10 2000000 instructions/op\nBenchmarkSmall-1 10 500 instructions/op\n"
	if err := os.WriteFile(record, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	const small = "BenchmarkSmall-1 10 500 instructions/op\n"
	for name, c := range map[string]struct{ arch, now, want string }{
		"same":             {"amd64", text, ""},
		"a fifth more":     {"amd64", strings.Replace(text, "2000000", "2400000", 1), ""},
		"a half more":      {"amd64", strings.Replace(text, "2000000", "3000000", 1), "pkg/pools Build/cold: 3000000 instructions/op, and 2000000 in the record"},
		"fewer":            {"amd64", strings.Replace(text, "2000000", "1000000", 1), ""},
		"few more":         {"amd64", strings.Replace(text, " 500 ", " 600 ", 1), ""},
		"not counted":      {"amd64", "pkg: github.com/cpupoold/cpupoold/pkg/pools\n" + small, "pkg/pools Build/cold: is in the record and was not measured (instructions/op)"},
		"another package":  {"amd64", "pkg: github.com/cpupoold/cpupoold/pkg/other\nBenchmarkBuild/cold-1 10 2000000 instructions/op\n" + small, "not measured"},
		"another machine":  {"arm64", strings.Replace(text, "2000000", "3000000", 1), "nothing of the record was measured"},
		"a figure of time": {"amd64", text + "BenchmarkBuild/cold-2 10 1 ns/op\n", ""},
	} {
		err := run(record, c.arch, strings.NewReader(c.now), &strings.Builder{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %q", name, err, c.want)
		}
	}
}

// One pod may at most double the work for others, also if the record has the larger figure. A separate limit applies to the heap.
func TestRunHostile(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.txt")
	const quiet, hostile = "BenchmarkA/quiet-2 10 1 ns/op 100 reads/op\n", "BenchmarkA/hostile-2 10 9 ns/op 201 reads/op\n"
	if err := os.WriteFile(record, []byte(quiet+hostile+"BenchmarkB/hostile-2 10 1 ns/op 5 heap-B\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ now, want string }{
		"twice":        {quiet + strings.Replace(hostile, "201", "200", 1), ""},
		"more":         {quiet + hostile, "A/hostile: 201 reads/op, and 100 without the hostile pod"},
		"not measured": {hostile, "A/quiet is not measured"},
		"heap":         {quiet + strings.Replace(hostile, "201 reads/op", "200 reads/op 39845888 heap-B", 1), ""},
		"larger heap":  {quiet + strings.Replace(hostile, "201 reads/op", "200 reads/op 39845889 heap-B", 1), "A/hostile: 39845889 bytes of objects in use; the limit is 39845888"},
	} {
		err := run(record, "amd64", strings.NewReader(c.now+"BenchmarkB/hostile-2 10 1 ns/op 9 heap-B\n"), &strings.Builder{})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %q", name, err, c.want)
		}
	}
	const missing = "B/hostile: is in the record and was not measured (heap-B)"
	if err := run(record, "amd64", strings.NewReader(quiet+strings.Replace(hostile, "201", "200", 1)), &strings.Builder{}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("without the heap: error %v; want %q", err, missing)
	}
}

// Two packages may have a benchmark of the same name: an improvement of one must not hide a
// regression of the other.
func TestRunSameName(t *testing.T) {
	record := filepath.Join(t.TempDir(), "record.txt")
	figures := func(a, b string) string {
		return "pkg: m/a\nBenchmarkRead-2 20 5 ns/op " + a + " allocs/op\npkg: m/b\nBenchmarkRead-2 20 5 ns/op " + b + " allocs/op\n"
	}
	if err := os.WriteFile(record, []byte(figures("66", "140052")), 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(record, "amd64", strings.NewReader(figures("99", "140000")), &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "m/a Read: 99 allocs/op, and 66 in the record") {
		t.Errorf("error %v; want one about m/a", err)
	}
}
