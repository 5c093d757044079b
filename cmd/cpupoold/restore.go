package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/usage"
)

func (a *app) restore() *cobra.Command {
	c := &cobra.Command{
		Use:   "restore",
		Short: "Restore the values that the daemon has changed",
		Long: `Restore writes the recorded original of each value that the daemon has changed. It reads
each value again and prints the differences. It only counts values with another text and the
same effect; -o json lists them. If the daemon publishes the node to a cluster, restore
removes its extended resources and its condition. The daemon must not run. Exit code 3 means
that a value has another effect, or that the cluster did not get the update.

While ResourceClaims are prepared, restore changes nothing and names them. Delete their pods while
the daemon runs, then stop the daemon and restore. With --force, restore forgets the claims: the
containers that use them run on all CPUs.

With --dry-run, restore prints the old and the new values, and writes nothing. It sends no
request to the cluster, and the daemon may run.

The journal can be damaged, or lost since the machine booted. Then restore resets each value
that equals the value of the plan to the default of kernel, systemd or kubelet. The report states
it. After a reboot, cgroups need no restore, because a reboot removes them.

--wait is for pods that must stay after the restore, as in deploy/uninstall/restore.yaml.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	dry := c.Flags().Bool("dry-run", false, "print the values to restore, and write nothing")
	force := c.Flags().Bool("force", false, "restore although ResourceClaims are prepared, and forget them")
	wait := c.Flags().Bool("wait", false, "after the restore, wait for a signal to end")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if *dry && *wait {
			return usage.New(c, errors.New("--wait is for a restore, and not for --dry-run"))
		}
		cfg, t, err := a.load()
		if err != nil {
			return err
		}
		do := restore.Restore
		if *dry {
			do = restore.DryRestore
		}
		r, err := do(c.Context(), restore.Options{
			Config: cfg, Topology: t, Environment: environment(), Log: a.logger(cfg), Force: *force,
		})
		if err = a.showRestored(r, err, *output); err != nil {
			return err
		}
		if r.Node != nil && r.Node.Error != "" ||
			slices.ContainsFunc(r.Differs, func(d undo.Difference) bool { return !d.Harmless }) ||
			slices.ContainsFunc(r.Settings.Differs, func(d tune.Difference) bool { return !d.Harmless }) {
			return exitCode(exitFindings)
		}
		if *wait {
			<-c.Context().Done()
		}
		return nil
	}
	return c
}

// showRestored prints the result of a restore. After a partial restore, err is the cause,
// and is returned.
func (a *app) showRestored(r restore.Report, err error, output format) error {
	if err != nil && len(r.Restored)+len(r.Changes)+len(r.Differs)+len(r.Settings.Restored)+len(r.Settings.Differs) == 0 {
		return err
	}
	return errors.Join(err, a.show(output, r, func(w *layout.Writer) { printRestored(w, r) }))
}

func printRestored(w *layout.Writer, r restore.Report) {
	if r.DryRun {
		fmt.Fprintf(w, "%d values would be restored, %d cgroups have ended\n", len(r.Changes), r.Gone)
	} else {
		restored := len(r.Restored)
		for _, d := range r.Differs {
			if d.Harmless {
				restored++
			}
		}
		fmt.Fprintf(w, "%d values restored, %d cgroups had ended\n", restored, r.Gone)
	}
	if r.Note != "" {
		fmt.Fprintln(w, r.Note)
	}
	switch {
	case len(r.Claims) == 0:
	case r.DryRun:
		fmt.Fprintf(w, "ResourceClaims are prepared, so a restore needs --force: %s\n", strings.Join(r.Claims, ", "))
	default:
		fmt.Fprintf(w, "ResourceClaims forgotten: %s\n", strings.Join(r.Claims, ", "))
	}
	printChanges(w, r)
	printSettings(w, r.Settings, r.DryRun)
	printNode(w, r.Node)
	printDiffers(w, "FILE", r.Differs, func(d undo.Difference) (bool, []string) {
		return d.Harmless, []string{string(d.Path), d.File, d.Value, d.Now, d.Reason}
	}, "1 value has another text and the same effect: all CPUs or NUMA nodes instead of none",
		"%d values have another text and the same effect: all CPUs or NUMA nodes instead of none")
}

// printDiffers prints the differences that have an effect, and the number of the others, which only
// JSON lists: one or many.
func printDiffers[D any](w *layout.Writer, head string, all []D, row func(D) (isHarmless bool, cells []string), one, many string) {
	out, others := layout.NewTable("DIFFERS", head, "WAS", "IS", "BECAUSE"), 0
	for _, d := range all {
		if isHarmless, cells := row(d); isHarmless {
			others++
		} else {
			out.Row(cells...)
		}
	}
	if others < len(all) {
		w.Table(out)
	}
	if others == 1 {
		w.Paragraph(one + " (listed with -o json)")
	} else if others > 1 {
		w.Paragraph(fmt.Sprintf(many, others) + " (listed with -o json)")
	}
}

func printChanges(w *layout.Writer, r restore.Report) {
	if len(r.Changes)+len(r.Settings.Restored) == 0 {
		return
	}
	head := "RESTORED"
	if r.DryRun {
		head = "TO RESTORE"
	}
	out := layout.NewTable(head, "FILE", "FROM", "TO")
	for _, c := range r.Changes {
		what := string(c.Path)
		if c.Unit != "" {
			what = c.Unit
		}
		out.Row(what, c.File, c.From, c.To)
	}
	for _, c := range r.Settings.Restored {
		out.Row(c.String(), c.Label, c.From, c.To)
	}
	w.Table(out)
}

func printNode(w *layout.Writer, n *restore.NodeReport) {
	switch {
	case n == nil:
	case n.Error != "":
		fmt.Fprintf(w, "node %s still shows resources and condition: %s\n", n.Name, n.Error)
	default:
		fmt.Fprintf(w, "%d resources of node %s withdrawn\n", len(n.Withdrawn), n.Name)
	}
}
