// Package samples writes the measurements of tests in a guest in the format of Go benchmarks, which benchstat and
// bench/record.sh read.
package samples

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Append appends a sample to a file: of so many operations, values and their units.
func Append(t testing.TB, file, name string, operations int, values ...any) {
	t.Helper()
	line := strings.TrimSuffix(fmt.Sprintln(append([]any{"Benchmark" + name, operations}, values...)...), "\n")
	t.Log(line)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintln(f, line)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
