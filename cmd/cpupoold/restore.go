package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/daemon"
)

func (a *app) restore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore",
		Short: "Put back what the daemon has changed",
		Long: `Restore puts the recorded original of each value that the daemon has changed back, reads
it again and prints what differs. Where the daemon shows the node to a cluster, its extended
resources and its condition are withdrawn. The daemon must not be running. Exit code 3 says
that a value differs in a way that matters, or that the cluster could not be told.

--wait is for pods that are to stay when all is put back, as those of deploy/uninstall/restore.yaml.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	wait := c.Flags().Bool("wait", false, "when all is put back, wait for a signal to end")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, t, err := a.load()
		if err != nil {
			return err
		}
		r, err := daemon.Restore(c.Context(), daemon.Options{
			Config: cfg, Topology: t, Environment: environment(), Build: build(), Log: a.logger(cfg),
		})
		if err != nil {
			return err
		}
		if *output == asJSON {
			err = printJSON(a.out, r)
		} else {
			err = a.printRestored(r)
		}
		if err != nil {
			return err
		}
		if r.Node != nil && r.Node.Error != "" {
			return exitCode(exitFindings)
		}
		for _, d := range r.Differs {
			if !d.Harmless {
				return exitCode(exitFindings)
			}
		}
		for _, d := range r.Settings.Differs {
			if !d.Harmless {
				return exitCode(exitFindings)
			}
		}
		if *wait {
			<-c.Context().Done()
		}
		return nil
	}
	return c
}

func (a *app) printRestored(r daemon.RestoreReport) error {
	if _, err := fmt.Fprintf(a.out, "%d values restored, %d cgroups had ended\n", len(r.Restored)+harmless(r), r.Gone); err != nil {
		return err
	}
	if err := a.printSettings(r.Settings); err != nil {
		return err
	}
	if err := a.printNode(r.Node); err != nil {
		return err
	}
	if len(r.Differs) == 0 {
		return nil
	}
	out := newTable(a.out, "DIFFERS", "FILE", "WAS", "IS", "BECAUSE")
	for _, d := range r.Differs {
		out.row(string(d.Path), d.File, d.Value, d.Now, d.Reason)
	}
	return out.flush()
}

func (a *app) printNode(n *daemon.NodeReport) error {
	if n == nil {
		return nil
	}
	if n.Error != "" {
		_, err := fmt.Fprintf(a.out, "node %s still shows resources and condition: %s\n", n.Name, n.Error)
		return err
	}
	_, err := fmt.Fprintf(a.out, "%d resources of node %s withdrawn\n", len(n.Withdrawn), n.Name)
	return err
}

func harmless(r daemon.RestoreReport) int {
	n := 0
	for _, d := range r.Differs {
		if d.Harmless {
			n++
		}
	}
	return n
}
