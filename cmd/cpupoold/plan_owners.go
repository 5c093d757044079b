package main

import (
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/preview"
)

// printNoise prints what keeps exclusive CPUs exclusive, and what goes on there all the
// same.
func printNoise(w *layout.Writer, p preview.Preview) {
	if len(p.Owners)+len(p.Ends) == 0 {
		return
	}
	fmt.Fprintln(w, "\nExclusive CPUs, and on which of them the kernel does work of its own:")
	out := layout.NewTable("POD", "CONTAINER OR UNIT", "CPUS", "KEPT BY", "BALANCING", "TICK", "RCU", "MANAGED IRQS")
	var lines []string
	for _, o := range p.Owners {
		mode := string(o.Mode)
		if o.Wanted != o.Mode {
			mode += ", to be " + string(o.Wanted)
		}
		out.Row(o.Pod, o.Name, o.CPUs.String(), mode, o.Balancing(), o.Tick.String(), o.RCU.String(), o.ManagedIRQ.String())
		if o.Why != "" {
			lines = append(lines, fmt.Sprintf("no partition: %s/%s: %s", o.Pod, o.Name, o.Why))
		}
	}
	for _, path := range p.Ends {
		lines = append(lines, "partition to end: "+string(path))
	}
	if len(p.BootArguments) > 0 {
		lines = append(lines, "kernel arguments against tick, RCU callbacks and managed interrupts there: "+strings.Join(p.BootArguments, " "))
	}
	w.Table(out)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}
