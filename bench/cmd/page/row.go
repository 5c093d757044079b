package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// row is a row of the table.
type row struct {
	text  string
	value source
	unit  string  // a unit of quantity
	limit float64 // the value must be below it; 0 means no limit
	least float64 // the value must be at least this; 0 means no limit
}

// parts holds the samples of each file, by its name without the suffix.
type parts = map[string]samples.Set

// value is the median of the samples and the best sample.
type value struct{ median, best float64 }

// source computes a value from the samples.
type source func(parts) (value, error)

// of returns the value of a benchmark. The package does not matter, because packages move.
func of(part, name, unit string) source {
	return func(p parts) (value, error) {
		var found []samples.Key
		for key := range p[part] {
			if key.Name == name && key.Unit == unit {
				found = append(found, key)
			}
		}
		if len(found) != 1 {
			return value{}, fmt.Errorf("%d packages in %s.txt have samples of %s in %s, want one", len(found), part, name, unit)
		}
		median, _ := p[part].Median(found[0])
		return value{median, slices.Min(p[part][found[0]])}, nil
	}
}

// combine returns a value that is computed from others.
func combine(f func(v ...float64) float64, operands ...source) source {
	return func(p parts) (value, error) {
		var medians, best []float64
		for _, o := range operands {
			v, err := o(p)
			if err != nil {
				return value{}, err
			}
			medians, best = append(medians, v.median), append(best, v.best)
		}
		return value{f(medians...), f(best...)}, nil
	}
}

// times returns a as a multiple of b.
func times(a, b source) source {
	return combine(func(v ...float64) float64 { return v[0] / v[1] }, a, b)
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
func (r row) format(p parts) (string, error) {
	v, err := r.value(p)
	if err != nil {
		return "", err
	}
	limit, met := "", true
	switch {
	case r.limit != 0:
		limit, met = "below "+quantity(r.limit, r.unit), v.median < r.limit
	case r.least != 0:
		limit, met = "at least "+quantity(r.least, r.unit), v.median >= r.least
	}
	verdict := ""
	if limit != "" {
		verdict = map[bool]string{true: "met", false: "**missed**"}[met]
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", r.text, quantity(v.median, r.unit), quantity(v.best, r.unit), limit, verdict), nil
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
