package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// row is a row of the table.
type row struct {
	anchor string // of links to the row
	text   string
	rival  string // the program, or the state, that a factor compares with
	slow   string // The program that takes longer by the factor. Empty means the rival.
	value  source
	unit   string  // a unit of quantity
	limit  float64 // The value must be below it. 0 means no limit.
	least  float64 // The value must be at least this. 0 means no limit.
	repeat string  // the command that takes the samples
}

// parts holds the samples of each file, by its name without the suffix.
type parts = map[string]samples.Set

// value is a value computed from samples.
type value struct {
	v       float64
	samples int  // of the operand with the fewest samples
	best    bool // best samples, and not medians
}

// source computes a value from the samples.
type source func(parts) (value, error)

// errNoSamples reports that a benchmark has no samples.
var errNoSamples = errors.New("no samples")

// of returns the median of a benchmark. The package does not matter, because packages move.
func of(part, name, unit string) source {
	return func(p parts) (value, error) {
		key, err := find(p[part], part, name, unit)
		if err != nil {
			return value{}, err
		}
		median, _ := p[part].Median(key)
		return value{v: median, samples: len(p[part][key])}, nil
	}
}

// bestOf returns the smallest sample of a benchmark, for machines with much other work.
func bestOf(part, name, unit string) source {
	return func(p parts) (value, error) {
		key, err := find(p[part], part, name, unit)
		if err != nil {
			return value{}, err
		}
		all := p[part][key]
		return value{v: slices.Min(all), samples: len(all), best: true}, nil
	}
}

// find returns the key of the only package with samples of a benchmark.
func find(set samples.Set, part, name, unit string) (samples.Key, error) {
	var found []samples.Key
	for key := range set {
		if key.Name == name && key.Unit == unit {
			found = append(found, key)
		}
	}
	switch len(found) {
	case 0:
		return samples.Key{}, fmt.Errorf("%s.txt: %w of %s in %s", part, errNoSamples, name, unit)
	case 1:
		return found[0], nil
	}
	return samples.Key{}, fmt.Errorf("%s.txt: %d packages have samples of %s in %s, want one", part, len(found), name, unit)
}

// combine returns a value that is computed from others.
func combine(f func(v ...float64) float64, operands ...source) source {
	return func(p parts) (value, error) {
		result := value{samples: math.MaxInt}
		var all []float64
		for _, o := range operands {
			v, err := o(p)
			if err != nil {
				return value{}, err
			}
			all = append(all, v.v)
			result.samples, result.best = min(result.samples, v.samples), v.best
		}
		result.v = f(all...)
		return result, nil
	}
}

// times returns a as a multiple of b.
func times(a, b source) source {
	return combine(func(v ...float64) float64 { return v[0] / v[1] }, a, b)
}

// sum returns the sum of a and b.
func sum(a, b source) source {
	return combine(func(v ...float64) float64 { return v[0] + v[1] }, a, b)
}

// perSecond returns the number of operations of one core in a second, from the CPU time of one.
func perSecond(time source) source {
	return combine(func(v ...float64) float64 { return 1 / v[0] }, time)
}

// idle returns the CPU time of an idle daemon in percent of a core. In 60 s it makes two resyncs,
// checks all cgroups twice, and releases memory. In 300 s it scans 1,000 tasks.
func idle(threads string) source {
	return combine(func(v ...float64) float64 { return 100 * ((v[0]+2*v[1])/60 + v[2]/300) },
		of("go", "Idle", "cpu-sec/op"), of("go", "Sweep/"+threads, "cpu-sec/op"), of("go", "Look/1000/home", "cpu-sec/op"))
}

// format returns the row as a line of Markdown.
func (r row) format(v value) string {
	var against []string
	if r.rival != "" {
		against = append(against, r.rival)
	}
	verdict := func(met bool) string { return map[bool]string{true: "met", false: "**missed**"}[met] }
	switch {
	case r.limit != 0:
		against = append(against, "limit "+quantity(r.limit, r.unit)+": "+verdict(v.v < r.limit))
	case r.least != 0:
		against = append(against, "at least "+quantity(r.least, r.unit)+": "+verdict(v.v >= r.least))
	}
	measured := quantity(v.v, r.unit)
	if r.unit == "x" {
		slow := r.slow
		if slow == "" {
			slow = r.rival
		}
		measured = slow + ": " + measured + " as long"
	}
	place := "host"
	if r.repeat == vmCommand || r.repeat == liveCommand {
		place = "VM"
	}
	measure := "median of "
	if v.best {
		measure = "best of "
	}
	if v.samples == 1 {
		measure = "samples: "
	}
	return fmt.Sprintf("| <a id=%q></a>%s | %s | %s | %s, %s%d | `%s` |\n",
		r.anchor, r.text, strings.Join(against, "; "), measured, place, measure, v.samples, r.repeat)
}

// quantity returns v with three significant digits and its unit. The unit x is a factor, and the
// empty unit a count.
func quantity(v float64, unit string) string {
	switch abs := math.Abs(v); {
	case unit == "s" && abs < 1e-6:
		v, unit = v*1e9, "ns"
	case unit == "s" && abs < 1e-3:
		v, unit = v*1e6, "µs"
	case unit == "s" && abs < 1:
		v, unit = v*1e3, "ms"
	case unit == "B":
		v, unit = v/(1<<20), "MiB"
	case unit == "/s":
		v, unit = v/1e3, "thousand/s"
	case unit == "x":
		unit = "times"
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // it reads its own output
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if unit == "" {
		return text
	}
	return text + " " + unit
}
