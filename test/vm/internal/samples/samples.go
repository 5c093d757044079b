// Package samples writes the measurements of tests in a guest in the format of Go benchmarks, which benchstat and
// bench/record.sh read.
package samples

import (
	"errors"
	"fmt"
	"os"
	"strconv"
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

// Field returns the number that follows a name at the start of a line.
func Field(t testing.TB, file, name string) int64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %s", name, file)
	return 0
}
