// Package samples reads the output of Go's benchmarks.
package samples

import (
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// Key is a figure of a benchmark: the import path of its package, if the samples have one,
// its name without the prefix and the number of CPUs, and the unit, such as sec/op, B/op or
// allocs/op. Names alone are not enough: several packages have a BenchmarkRead.
type Key struct{ Package, Name, Unit string }

// Set has all samples by figure.
type Set map[Key][]float64

// Read reads samples. Lines that are no results are left out, as go test prints some.
func Read(r io.Reader, file string) (Set, error) {
	all := Set{}
	in := benchfmt.NewReader(r, file)
	for in.Scan() {
		result, ok := in.Result().(*benchfmt.Result)
		if !ok {
			continue
		}
		name := string(result.Name.Full())
		if i := strings.LastIndexByte(name, '-'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
			name = name[:i] // GOMAXPROCS, if it is not 1
		}
		for _, v := range result.Values {
			key := Key{result.GetConfig("pkg"), name, v.Unit}
			all[key] = append(all[key], v.Value)
		}
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New(file + " has no results of benchmarks; give what go test -bench prints")
	}
	return all, nil
}

// Median is that of the samples of a figure, and false where there are none.
func (s Set) Median(key Key) (float64, bool) {
	v := slices.Sorted(slices.Values(s[key]))
	if len(v) == 0 {
		return 0, false
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, true
}
