package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func (a *app) plan() *cobra.Command {
	c := &cobra.Command{
		Use:   "plan",
		Short: "Print the writes that run would make, and why",
		Long: `Plan examines the node and computes the same writes as run. It prints them in their order,
each with its reason, and writes nothing. While a daemon runs, it prints the remaining writes.

With --defrag, it prints the positions of exclusive CPUs on the machine instead, and the
moves that reduce fragmentation. With --defrag --apply, it requests these moves from the
running daemon one after another, and prints the result of each. Exit code 3 means that the
daemon did not make a move. A move disturbs the container: its caches are cold. On another
NUMA node its memory is remote, unless guaranteed.memory binds it.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	defrag := c.Flags().Bool("defrag", false, "print the fragmentation, and the moves that reduce it")
	apply := c.Flags().Bool("apply", false, "with --defrag, request the moves from the running daemon")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *apply && !*defrag {
			return usage.New(c, errors.New("--apply needs --defrag; run makes all other writes"))
		}
		cfg, t, err := a.load()
		if err != nil {
			return err
		}
		if a.configPath() == "" {
			_, _ = fmt.Fprintf(a.err, "cpupoold: %s does not exist; planning with default values, which put all CPUs into the shared pool (see --config)\n", defaultConfig)
		}
		if *defrag {
			return a.doDefrag(c.Context(), cfg, t, *output, *apply)
		}
		p, err := preview.DryRun(c.Context(), cfg, t, a.logger(cfg))
		if err != nil {
			return err
		}
		return a.show(*output, p, func(w *layout.Writer) { printPlan(w, p) })
	}
	return c
}

func printPlan(w *layout.Writer, p preview.Preview) {
	out := layout.NewTable("POD", "CONTAINER OR UNIT", "POOL", "CPUS", "REASON")
	for pod, c := range p.Plan.Containers() {
		if c.State == pools.Exited {
			continue
		}
		out.Row(pod.Namespace+"/"+pod.Name, c.Name, inspect.FullPool(c.Pool, c.Type), (&inspect.Container{CPUs: c.CPUs, Mixed: c.Mixed}).CPUText(), c.Reason.Text+" ("+string(c.Reason.Code)+")")
	}
	for _, u := range p.Plan.Units {
		out.Row("", u.Name, inspect.FullPool(u.Pool, u.Type), u.CPUs.String(), u.Reason.Text+" ("+string(u.Reason.Code)+")")
	}
	for _, v := range p.Host {
		if v.State == hostslices.Confined {
			out.Row("", v.Name, "host", v.CPUs.String(), "host services")
		}
	}
	w.Table(out)
	w.Section(claimTable(inspect.ClaimsOf(&p.Plan, nil)))
	fmt.Fprintln(w, codes.Hint())
	printNoise(w, p)
	if len(p.Writes) == 0 {
		fmt.Fprintln(w, "\nNothing to write.")
	} else {
		fmt.Fprintf(w, "\n%d writes:\n", len(p.Writes))
	}
	writes := &layout.Table{}
	for i, x := range p.Writes {
		writes.Row(fmt.Sprint(i+1), string(x.Via), x.Property+"="+x.Value, string(x.Path), x.Reason)
	}
	w.Table(writes)
	printTuning(w, p.Tuning)
	printRest(w, p)
}

func printRest(w *layout.Writer, p preview.Preview) {
	var lines []string
	for _, x := range p.Adapted {
		lines = append(lines, "adapted: "+x)
	}
	if !p.Offline.IsEmpty() {
		lines = append(lines, fmt.Sprintf("offline: CPUs %s; their pools are smaller", p.Offline))
	}
	for _, x := range p.Plan.Problems {
		lines = append(lines, "problem: "+inspect.ProblemOf(x).String())
	}
	for _, v := range p.Host {
		if v.State != hostslices.Confined {
			lines = append(lines, fmt.Sprintf("left alone: %s: %s", v.Name, v.Why))
		}
	}
	if resting := p.Plan.Resting; !resting.IsEmpty() {
		lines = append(lines, fmt.Sprintf("waits: CPUs %s stay out of the shared pool (quiet)", resting))
	}
	for _, d := range p.Deferred {
		lines = append(lines, fmt.Sprintf("waits: %s %s: %s", d.Path, d.Property, d.Reason))
	}
	for _, u := range p.Unread {
		lines = append(lines, "not read: "+u)
	}
	for _, l := range lines {
		fmt.Fprintln(w, layout.Printable(l))
	}
}

// printNoise prints the settings that keep other work off exclusive CPUs, and the remaining
// work there.
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
