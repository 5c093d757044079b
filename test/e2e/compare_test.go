//go:build e2e

package e2e_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the measured columns of the table in docs/comparison.md")

// TestCompareDRA measures dra-driver-cpu and cpupoold with the same claims, one after the other, on a node with two threads per core and two
// NUMA nodes. The table in docs/comparison.md must have the results, apart from durations and sizes.
func TestCompareDRA(t *testing.T) {
	drivers := []claimDriver{dradrivercpu(partsTree(t, "dradrivercpu")), cpupoolDRA(read(t, "docs/how-to/use-resource-claims.md"))}
	c := start(t, "16c2s2t")
	c.kubectl(t, "kubectl taint node "+nodeName+" cpupoold.io/starting-") // only one of the two would remove it
	c.namespace(t, comparisons, "")
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			defer d.remove(t, c) // also after a failure: the next driver needs the node
			d.install(t, c)
			defer c.empty(t, comparisons)
			checkComparison(t, d.name, c.measure(t, d))
		})
	}
}

// A measurement is a cell of the table, with the name of its row.
type measurement struct{ name, result string }

// variable matches the parts of results that differ between two runs.
var variable = regexp.MustCompile(`\d+(\.\d+)? (ms|MiB)`)

// checkComparison compares the column of a driver with its measurements.
func checkComparison(t *testing.T, driver string, measured []measurement) {
	t.Helper()
	const file = "../../docs/comparison.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range measured {
		t.Logf("%s: %s: %s", driver, m.name, m.result)
	}
	lines := strings.Split(string(text), "\n")
	head := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "| measurement |") })
	if head < 0 {
		t.Fatalf("%s has no table of measurements", file)
	}
	column := slices.IndexFunc(cells(lines[head]), func(cell string) bool { return strings.HasPrefix(cell, driver) })
	if column < 0 {
		t.Fatalf("the table in %s has no column %s", file, driver)
	}
	for i, m := range measured {
		row := cells(lines[head+2+i])
		if row[0] != m.name {
			t.Fatalf("row %d of the table in %s is %q; want %q", i+1, file, row[0], m.name)
		}
		if want := m.result; *update {
			row[column] = want
			lines[head+2+i] = "| " + strings.Join(row, " | ") + " |"
		} else if got := row[column]; variable.ReplaceAllString(got, "N $2") != variable.ReplaceAllString(want, "N $2") {
			t.Errorf("%s: %s: the table has %q; measured %q", driver, m.name, got, want)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// cells returns the cells of a row of a table in Markdown.
func cells(row string) []string {
	all := strings.Split(strings.Trim(row, "| "), "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}
