// Check holds allocations of benchmarks against a record, and fails where one of them has
// become more by a fifth. Times are not compared: machines differ.
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
	"slices"

	"github.com/cpupoold/cpupoold/bench/samples"
)

// most is how much more is taken for the same. Below slack it is not looked at: an
// allocation of some bytes more is no regression.
const most = 1.2

// slack is how much more is nothing, by unit.
func slack() map[string]float64 { return map[string]float64{"allocs/op": 2, "B/op": 256} }

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "check: give the record, and on the standard input what go test -bench -benchmem prints")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "check:", err)
		os.Exit(1)
	}
}

func run(record string, in io.Reader, out io.Writer) error {
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
	errs, compared := compare(was, is)
	if compared == 0 {
		return errors.New("nothing of the record was measured")
	}
	_, err = fmt.Fprintf(out, "%d figures, %d of them worse by more than a fifth\n", compared, len(errs))
	return errors.Join(append(errs, err)...)
}

// compare returns an error for each figure that is worse, and for each that is not measured
// any more.
func compare(was, is samples.Set) (errs []error, compared int) {
	order := func(a, b samples.Key) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit)) }
	for _, key := range slices.SortedFunc(maps.Keys(was), order) {
		least, counts := slack()[key.Unit]
		if !counts {
			continue
		}
		before, _ := was.Median(key.Name, key.Unit)
		now, measured := is.Median(key.Name, key.Unit)
		compared++
		switch {
		case !measured:
			errs = append(errs, fmt.Errorf("%s: is in the record and was not measured; measure it, or make the record anew with make bench-record", key.Name))
		case now > before*most && now > before+least:
			errs = append(errs, fmt.Errorf("%s: %.0f %s, and %.0f in the record; find out why, or make the record anew with make bench-record and say why", key.Name, now, key.Unit, before))
		}
	}
	return errs, compared
}
