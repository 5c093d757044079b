package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// printSettings prints the host settings outside of cgroups that a restore has restored, or
// would restore.
func printSettings(w *layout.Writer, r tune.Report, dry bool) {
	if r.Note != "" {
		fmt.Fprintln(w, r.Note)
	}
	switch {
	case len(r.Restored)+r.Gone == 0:
	case dry:
		fmt.Fprintf(w, "%d host settings would be restored (interrupts and the like), %d are gone\n", len(r.Restored), r.Gone)
	default:
		fmt.Fprintf(w, "%d host settings restored (interrupts and the like), %d were gone\n", len(r.Restored), r.Gone)
	}
	for _, c := range r.Restored {
		if c.Presumed {
			fmt.Fprintf(w, "%s is %q, the kernel's default\n", c.Knob, c.To)
		}
	}
	printDiffers(w, "OF", r.Differs, func(d tune.Difference) (bool, []string) {
		return d.Harmless, []string{d.String(), d.Label, d.Original, d.Now, d.Reason}
	}, "1 setting of the host keeps the value of another process, with the CPUs that the daemon had removed",
		"%d host settings keep the values of other processes, with the CPUs that the daemon had removed")
}

func printTuning(w *layout.Writer, p *preview.Tuning) {
	if p == nil {
		return
	}
	fmt.Fprintf(w, "\n%d host settings to write (no interrupts: CPUs %s; no kernel threads: CPUs %s):\n",
		len(p.Changes), cmp.Or(p.Quiet.String(), "none"), cmp.Or(p.NoKernel.String(), "none"))
	out := &layout.Table{}
	for _, c := range p.Changes {
		out.Row(c.String(), c.Label, c.From, "to "+c.To)
	}
	for _, s := range p.Stuck {
		out.Row(s.String(), s.Label, s.Value, "stays: "+s.Text)
	}
	w.Table(out)
	for _, by := range slices.Compact(slices.Sorted(maps.Values(p.Elsewhere))) {
		fmt.Fprintf(w, "interrupts of some containers are left to %s\n", by)
	}
	if p.Unread != "" {
		fmt.Fprintf(w, "not read: %s\n", layout.Printable(p.Unread))
	}
}
