package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/cpupoold/cpupoold/internal/layout"
)

// checkOutput returns what is wrong with a value of -o.
func checkOutput(format string) error {
	if format != "text" && format != "json" {
		return fmt.Errorf("--output %q: no such format; write text or json", format)
	}
	return nil
}

// printJSON prints a document as people can read it, too.
func printJSON(w io.Writer, document any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}

// table prints rows in columns that are as wide as names need, which are there to be copied.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) table { return table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// row adds a row. What would steer a terminal is shown as ?.
func (t table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = layout.Printable(c)
	}
	fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// flush prints the rows.
func (t table) flush() error { return t.w.Flush() }
