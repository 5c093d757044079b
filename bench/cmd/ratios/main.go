// Ratios prints a table of how others fare against cpupoold on the same input in the same
// run: of benchmarks whose names differ in the last element alone.
//
//	go run ./cmd/ratios FILE...
package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// pairs are the last elements of names: ours, and what it is held against.
func pairs() map[string]string {
	return map[string]string{
		"kubelet": "cpupoold", "k8s.io-utils": "cpupoold", "procfs": "cpupoold",
		"coding": "whole", // of a review: the least that anybody can do with it
	}
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	all := samples.Set{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		set, err := samples.Read(f, name)
		_ = f.Close() // it was only read
		if err != nil {
			return err
		}
		maps.Copy(all, set)
	}
	rows := table(all)
	if len(rows) == 0 {
		return fmt.Errorf("no benchmark in %s is there for cpupoold and for somebody else", strings.Join(files, ", "))
	}
	_, err := fmt.Fprintf(out, "| | against | cpupoold | the other | times | allocations |\n|---|---|---|---|---|---|\n%s", strings.Join(rows, ""))
	return err
}

func table(all samples.Set) (rows []string) {
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b samples.Key) int { return cmp.Compare(a.Name, b.Name) }) {
		i := strings.LastIndexByte(key.Name, '/')
		if i < 0 {
			continue
		}
		ours, is := pairs()[key.Name[i+1:]]
		if key.Unit != time(all, key) || !is {
			continue
		}
		own := key
		own.Name = key.Name[:i+1] + ours
		mine, there := all.Median(own)
		if !there {
			continue
		}
		theirs, _ := all.Median(key)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %.3g | %s |\n", key.Name[:i], key.Name[i+1:], short(mine), short(theirs), theirs/mine, allocations(all, own, key)))
	}
	return rows
}

// time is the unit that counts: CPU time, where a benchmark tells it.
func time(all samples.Set, of samples.Key) string {
	of.Unit = "cpu-sec/op"
	if _, ok := all[of]; ok {
		return of.Unit
	}
	return "sec/op"
}

func allocations(all samples.Set, ours, theirs samples.Key) string {
	ours.Unit, theirs.Unit = "allocs/op", "allocs/op"
	a, ok := all.Median(ours)
	b, also := all.Median(theirs)
	if !ok || !also {
		return ""
	}
	return fmt.Sprintf("%.0f, %.0f", a, b)
}

// short is a time in seconds for people.
func short(seconds float64) string {
	switch {
	case seconds < 1e-6:
		return fmt.Sprintf("%.3g ns", seconds*1e9)
	case seconds < 1e-3:
		return fmt.Sprintf("%.3g µs", seconds*1e6)
	}
	return fmt.Sprintf("%.3g ms", seconds*1e3)
}
