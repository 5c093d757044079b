package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/bench/samples"
)

func TestPerOp(t *testing.T) {
	s := subject{more: 100}
	got, err := perOp(s, func(iterations int) (uint64, error) { return 30_000_000 + 2500*uint64(iterations), nil })
	if err != nil || got != 2500 {
		t.Errorf("perOp = %v, %v; want 2500", got, err)
	}
	if _, err := perOp(s, func(int) (uint64, error) { return 30_000_000, nil }); err == nil {
		t.Error("perOp of a loop without work = no error; want one")
	}
	failed := errors.New("no")
	if _, err := perOp(s, func(iterations int) (uint64, error) {
		if iterations > few {
			return 0, failed
		}
		return 1, nil
	}); !errors.Is(err, failed) {
		t.Errorf("perOp = %v; want the error of the second run", err)
	}
}

func TestReferences(t *testing.T) {
	// Of valgrind 3.19 and 3.24.
	const head = "==7== Cachegrind, a cache and branch-prediction profiler\n==7== \n"
	for _, log := range []string{head + "==7== I   refs:      159,930,269\n", head + "==7== I refs:        159,930,269\n"} {
		if n, err := references(log); err != nil || n != 159930269 {
			t.Errorf("references(%q) = %d, %v; want 159930269", log, n, err)
		}
	}
	for _, log := range []string{"", head, "==7== D refs: 12\n", "==7== I   refs:      many\n", "==7== I   refs:\n"} {
		if n, err := references(log); err == nil {
			t.Errorf("references(%q) = %d; want an error", log, n)
		}
	}
}

func TestPattern(t *testing.T) {
	if got, want := pattern("Take/8of1024"), "^BenchmarkTake$/^8of1024$"; got != want {
		t.Errorf("pattern = %s; want %s", got, want)
	}
	const figures = "goos: linux\nBenchmarkTake/8of1024caches         \t      20\t 14884 ns/op\nBenchmarkRead\t      20\t 14884 ns/op\nPASS\n"
	for name, want := range map[string]bool{"Take/8of1024caches": true, "Read": true, "Take/8of1024": false} {
		if got := ran(figures, name); got != want {
			t.Errorf("ran(%s) = %t; want %t", name, got, want)
		}
	}
}

// The caller's settings for Go must not reach the benchmark: with a garbage collector
// its instructions vary.
func TestEnvironment(t *testing.T) {
	env := environment([]string{"GOGC=100", "GODEBUG=gctrace=1", "GOMAXPROCS=8", "HOME=/h"})
	var set []string
	for _, e := range env {
		if name, _, _ := strings.Cut(e, "="); slices.Contains([]string{"GOGC", "GODEBUG", "GOMAXPROCS", "HOME"}, name) {
			set = append(set, e)
		}
	}
	want := []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1,cpu.all=off", "HOME=/h"}
	if !slices.Equal(set, want) {
		t.Errorf("environment = %q; want %q", set, want)
	}
}

// The command check must be able to read the output, also if a name has a dash.
func TestSubjects(t *testing.T) {
	for _, s := range subjects() {
		set, err := samples.Read(strings.NewReader(figure(s, 1234)), "figure")
		if err != nil {
			t.Fatal(err)
		}
		key := samples.Key{Package: module + "/" + s.pkg, Name: s.name, Unit: "instructions/op"}
		if n, ok := set.Median(key); !ok || n != 1234 {
			t.Errorf("%v is read as %v; want 1234", key, set)
		}
	}
}
