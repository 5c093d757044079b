package main

import (
	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/explain"
)

func (a *app) explain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain POD[/CONTAINER]",
		Short: "Print why a container or unit runs where it runs",
		Long: `Explain asks the running daemon why a container or unit has its CPUs. It prints one sentence,
and what to change for other CPUs. With --details it also prints the rules in the order of
the attempts, other places, changes that lead there, the desired and the present state of the
cgroup, and the decisions and writes. The daemon repeats its last decision for that, and
changes nothing. JSON always contains the details.

The name is that of a pod, namespace/pod or a pod's UID, any of these with /container, the ID
of a container or the first 8 letters of it, or a systemd unit of the configuration. A pod
alone stands for all of its containers but its pause container, which is pod/POD.`,
		Example: `  cpupoold explain ran/du-0
  cpupoold explain du-0/du --details
  cpupoold explain du-0 -o json
  cpupoold explain gnss.service`,
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	details := c.Flags().Bool("details", false, "print rules, candidates, changes, the cgroup and events, too")
	c.RunE = func(c *cobra.Command, args []string) error {
		client := a.daemon()
		defer client.Close()
		e, err := client.Explain(c.Context(), args[0])
		if err != nil {
			return err
		}
		if *output == asJSON {
			return document.Write(a.out, e)
		}
		return explain.Print(a.out, e, *details)
	}
	return c
}
