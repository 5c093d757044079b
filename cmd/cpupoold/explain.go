package main

import (
	"github.com/spf13/cobra"
)

func (a *app) explain() *cobra.Command {
	c := &cobra.Command{
		Use:   "explain POD[/CONTAINER]",
		Short: "Print why a container or unit runs where it runs",
		Long: `Explain asks the running daemon why something runs where it runs: the rules that were tried,
in order, and the one that decided; what its cgroup is to be and what the kernel says that it
is; what was decided and written, and when. The daemon makes its last decision once more for
that, and changes nothing.

The name is that of a pod, namespace/pod or a pod's UID, any of these with /container, the ID
of a container or the first 8 letters of it, or a systemd unit of the configuration. A pod
alone stands for all of its containers but its pause container, which is pod/POD.`,
		Example: `  cpupoold explain ran/du-0
  cpupoold explain du-0/du -o json
  cpupoold explain gnss.service`,
		Args: cobra.ExactArgs(1),
	}
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		client := a.daemon()
		defer client.Close()
		e, err := client.Explain(c.Context(), args[0])
		if err != nil {
			return err
		}
		if *output == asJSON {
			return printJSON(a.out, e)
		}
		return printExplanation(a.out, e)
	}
	return c
}
