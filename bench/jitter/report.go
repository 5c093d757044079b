package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// Report is the result of compare.
type Report struct {
	// Without ran on a CPU without exclusive use, With where the command has put it. With
	// is nil if it failed, and Why has the reason.
	Without *Measurement `json:"without"`
	With    *Measurement `json:"with,omitempty"`
	Why     string       `json:"why,omitempty"`
	// Load is the number of busy processes during the run.
	Load int `json:"load"`
	// Others holds the output of cyclictest and oslat, by name.
	Others map[string]string `json:"others,omitempty"`
}

// print writes a table for people.
func (r *Report) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	columns := []*Measurement{r.Without}
	head := "\twithout\t"
	if r.With != nil {
		columns, head = append(columns, r.With), head+"with\t"
	}
	fmt.Fprintln(w, head)
	row := func(name string, cell func(*Measurement) any) {
		fmt.Fprintf(w, "%s\t", name)
		for _, m := range columns {
			fmt.Fprintf(w, "%v\t", cell(m))
		}
		fmt.Fprintln(w)
	}
	row("CPU", func(m *Measurement) any { return m.CPU })
	row("of CPUs", func(m *Measurement) any { return m.Allowed })
	row("gap, median", func(m *Measurement) any { return m.P50 })
	row("99.9 %", func(m *Measurement) any { return m.P999 })
	row("99.99 %", func(m *Measurement) any { return m.P9999 })
	row("longest", func(m *Measurement) any { return m.Max })
	row("above 10 µs", func(m *Measurement) any { return m.Over10us })
	row("above 100 µs", func(m *Measurement) any { return m.Over100us })
	for _, sort := range []string{"tick", "interrupt", "softirq", "switch"} {
		row(sort+", a second", func(m *Measurement) any {
			return fmt.Sprintf("%.1f", float64(total(m.Events, sort))/m.Duration.Seconds())
		})
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i, m := range columns {
		fmt.Fprintf(out, "\nEvents %s:\n", []string{"without", "with"}[i])
		for _, e := range m.Events {
			fmt.Fprintf(out, "  %-9s %9d  %s\n", e.Sort, e.Count, e.Name)
		}
		for _, n := range m.Notes {
			fmt.Fprintf(out, "  note: %s\n", n)
		}
	}
	if r.Why != "" {
		fmt.Fprintf(out, "\nNothing is measured with cpupoold: %s\n", r.Why)
	}
	names := []string{}
	for name := range r.Others {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(out, "\n%s:\n%s\n", name, r.Others[name])
	}
	return nil
}

func (r *Report) json(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
