// Check compares allocations and instructions of benchmarks with a record. It fails if one of
// them has grown by a fifth. A benchmark "quiet" measures the work for other pods, and a benchmark
// "hostile" the same work next to a hostile pod. Check fails if the second figure is more
// than twice the first one, or if the heap of the daemon has too many objects in use. Times are not compared: machines differ.
//
//	go run ./cmd/check RECORD <NOW
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// most is the factor up to which a figure counts as unchanged. A growth below slack is
// ignored: an allocation of some bytes more is no regression.
const most = 1.2

// mostHostile is the factor by which one pod may increase the work for the others.
const mostHostile = 2

// mostHeap is the limit of the objects in use in bytes. The limit of the daemon's memory is 96 MiB. An idle daemon has 20 MiB,
// and Go's heap has as much garbage as objects in use (GOGC=100), so half of the rest is left for objects.
const mostHeap = 38 << 20

// heapUnit is the unit of the objects in use. They are compared with mostHeap, and not with the record: they vary.
const heapUnit = "heap-B"

// slack is the ignored growth by unit, for the units that are compared on an
// architecture. Instructions differ by architecture, and the record has one.
func slack(arch string) map[string]float64 {
	units := map[string]float64{"allocs/op": 2, "B/op": 256, "reads/op": 2}
	if arch == "amd64" {
		units["instructions/op"] = 100
	}
	return units
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "check: give the record, and on the standard input what go test -bench -benchmem prints")
		os.Exit(2)
	}
	if err := run(os.Args[1], runtime.GOARCH, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(record, arch string, in io.Reader, out io.Writer) error {
	f, err := os.Open(record)
	if err != nil {
		return err
	}
	defer f.Close()
	was, err := samples.Read(f, record)
	if err != nil {
		return err
	}
	is, err := samples.Read(in, "the standard input")
	if err != nil {
		return err
	}
	errs, compared := compare(was, is, slack(arch))
	costs := hostile(is, slack(arch))
	var units []string
	total := 0
	for _, unit := range slices.Sorted(maps.Keys(compared)) {
		units = append(units, fmt.Sprintf("%d of %s", compared[unit], unit))
		total += compared[unit]
	}
	if total == 0 {
		return errors.New("nothing of the record was measured")
	}
	_, err = fmt.Fprintf(out, "%d figures (%s), %d of them worse by more than a fifth\n", total, strings.Join(units, ", "), len(errs))
	return errors.Join(append(append(errs, costs...), err)...)
}

// hostile returns an error for each figure that one pod increases too much for the others, and for each heap with too
// many objects in use.
func hostile(is samples.Set, slack map[string]float64) (errs []error) {
	for _, key := range slices.SortedFunc(maps.Keys(is), order) {
		if heap, _ := is.Median(key); key.Unit == heapUnit && heap > mostHeap {
			errs = append(errs, fmt.Errorf("%s: %.0f bytes of objects in use; the limit is %d", title(key), heap, mostHeap))
		}
		if parent, ok := strings.CutSuffix(key.Name, "/hostile"); ok {
			least, counts := slack[key.Unit]
			calm := key
			calm.Name = parent + "/quiet"
			with, _ := is.Median(key)
			without, measured := is.Median(calm)
			switch {
			case !counts:
			case !measured:
				errs = append(errs, fmt.Errorf("%s: %s is not measured (%s); measure both", title(key), title(calm), key.Unit))
			case with > without*mostHostile && with > without+least:
				errs = append(errs, fmt.Errorf("%s: %.0f %s, and %.0f without the hostile pod; the limit is %d times as many", title(key), with, key.Unit, without, mostHostile))
			}
		}
	}
	return errs
}

// compare returns an error for each figure that is worse or was not measured. It also
// returns the number of compared figures by unit.
func compare(was, is samples.Set, slack map[string]float64) (errs []error, compared map[string]int) {
	compared = map[string]int{}
	for _, key := range slices.SortedFunc(maps.Keys(was), order) {
		before, _ := was.Median(key)
		now, measured := is.Median(key)
		least, counts := slack[key.Unit]
		if !counts && (measured || key.Unit != heapUnit) {
			continue
		}
		compared[key.Unit]++
		switch {
		case !measured:
			errs = append(errs, fmt.Errorf("%s: is in the record and was not measured (%s); measure it, or make a new record with make bench-record", title(key), key.Unit))
		case now > before*most && now > before+least:
			errs = append(errs, fmt.Errorf("%s: %.0f %s, and %.0f in the record; find the reason, or make a new record with make bench-record and state the reason", title(key), now, key.Unit, before))
		}
	}
	return errs, compared
}

// order compares figures by package, name and unit.
func order(a, b samples.Key) int {
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit))
}

// title is a benchmark for people.
func title(key samples.Key) string {
	return strings.TrimLeft(strings.TrimPrefix(key.Package, "github.com/cpupoold/cpupoold")+" "+key.Name, "/ ")
}
