package main

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// printSettings prints what has been put back of the host's settings outside of cgroups,
// or would be.
func (a *app) printSettings(r tune.Report, dry bool) error {
	lines := []string{}
	if r.Note != "" {
		lines = append(lines, r.Note)
	}
	switch {
	case len(r.Restored)+r.Gone == 0:
	case dry:
		lines = append(lines, fmt.Sprintf("%d settings of the host would be restored (interrupts and the like), %d are gone", len(r.Restored), r.Gone))
	default:
		lines = append(lines, fmt.Sprintf("%d settings of the host restored (interrupts and the like), %d were gone", len(r.Restored), r.Gone))
	}
	for _, c := range r.Restored {
		if c.Presumed {
			lines = append(lines, fmt.Sprintf("%s is %q, the kernel's default", c.Knob, c.To))
		}
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(a.out, l); err != nil {
			return err
		}
	}
	listed := slices.DeleteFunc(slices.Clone(r.Differs), func(d tune.Difference) bool { return d.Harmless })
	if len(listed) > 0 {
		out := layout.NewTable("DIFFERS", "OF", "WAS", "IS", "BECAUSE")
		for _, d := range listed {
			out.Row(d.String(), d.Label, d.Original, d.Now, d.Reason)
		}
		if err := out.Print(a.out); err != nil {
			return err
		}
	}
	return a.printCount(len(r.Differs)-len(listed),
		"1 setting of the host keeps the value of another process, with the CPUs that the daemon had removed",
		"%d settings of the host keep the values of other processes, with the CPUs that the daemon had removed")
}

// printTuning prints what a plan would change of them.
func (a *app) printTuning(p *preview.Tuning) error {
	if p == nil {
		return nil
	}
	if _, err := fmt.Fprintf(a.out, "\n%d settings of the host to write (no interrupts: CPUs %s; no threads of the kernel: CPUs %s):\n",
		len(p.Changes), orNone(p.Quiet.String()), orNone(p.NoKernel.String())); err != nil {
		return err
	}
	out := &layout.Table{}
	for _, c := range p.Changes {
		out.Row(c.String(), c.Label, c.From, "to "+c.To)
	}
	for _, s := range p.Stuck {
		out.Row(s.String(), s.Label, s.Value, "stays: "+s.Text)
	}
	if err := out.Print(a.out); err != nil {
		return err
	}
	var managers []string
	for _, by := range p.Elsewhere {
		managers = append(managers, by)
	}
	slices.Sort(managers)
	for _, by := range slices.Compact(managers) {
		if _, err := fmt.Fprintf(a.out, "interrupts of some containers are left to %s\n", by); err != nil {
			return err
		}
	}
	if p.Unread == "" {
		return nil
	}
	_, err := fmt.Fprintf(a.out, "not read: %s\n", printable(p.Unread))
	return err
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
