package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func (a *app) topology() *cobra.Command {
	c := &cobra.Command{
		Use:   "topology",
		Short: "Print the machine's CPUs, cores, caches and NUMA nodes",
		Long: `Topology prints a line for each physical core: its position, its CPUs (threads), and on
hybrid machines its type. Then it prints the sets of CPUs that the kernel treats differently. A
cache or core has the number of its lowest CPU. With --sysfs it prints the machine
of a saved /sys, such as the directory sys of a report (cpupoold report).`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	sysfs := c.Flags().String("sysfs", "/sys", "`directory` of the machine's sysfs, or of a copy")
	c.RunE = func(*cobra.Command, []string) error {
		t, err := topology.Read(kernelfs.Dir(*sysfs))
		if err != nil {
			return fmt.Errorf("%s: %w", *sysfs, err)
		}
		for _, w := range t.Warnings {
			if _, err := fmt.Fprintln(a.err, "warning:", w); err != nil {
				return err
			}
		}
		return a.show(*output, t, func(w *layout.Writer) { printTopology(w, t) })
	}
	return c
}

func printTopology(w *layout.Writer, t *topology.Topology) {
	out := layout.NewTable("NODE", "PACKAGE", "DIE", "L3", "CORE", "CPUS", "KIND")
	for _, core := range t.Cores {
		cpu, _ := t.CPU(core.CPUs.First())
		kind := ""
		if cpu.Kind != topology.Unknown {
			kind = cpu.Kind.String()
		}
		out.Row(
			strconv.Itoa(t.Nodes[cpu.Node].ID),
			strconv.Itoa(t.Packages[cpu.Package].ID),
			strconv.Itoa(t.Dies[cpu.Die].ID),
			strconv.Itoa(t.L3s[cpu.L3].ID),
			strconv.Itoa(core.ID),
			core.CPUs.String(),
			kind,
		)
	}
	w.Table(out)
	var memory []int
	for _, node := range t.Nodes {
		if node.HasMemory {
			memory = append(memory, node.ID)
		}
	}
	fmt.Fprintln(w)
	sets := layout.NewTable("online", t.Online.String())
	sets.Row("offline", t.Present.Difference(t.Online).String())
	sets.Row("present", t.Present.String())
	sets.Row("isolated at boot", t.Isolated.String())
	sets.Row("nohz_full", t.NohzFull.String())
	sets.Row("nodes with memory", cpuset.Of(memory...).String())
	w.Table(sets)
}
