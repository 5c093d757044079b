package main

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/node/control"
)

func (a *app) status() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Print what the running daemon does: pools, containers, sources, problems, writes",
		Long: `Status asks the running daemon for its state after the last pass: pools with their CPUs and
containers, the reason for each placement, the protection of exclusive CPUs, lost sources,
problems, the last writes and the configuration in force. Tables are as wide as the terminal; JSON
has all fields, with the topology of the machine: docs/reference/json.md.

With --watch it prints the state again after each change, until it is stopped; with
-o json each state is a line.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	watch := c.Flags().BoolP("watch", "w", false, "print it again after each change")
	c.RunE = func(c *cobra.Command, _ []string) error {
		client := a.daemon()
		defer client.Close()
		if *watch {
			return a.watchStatus(c.Context(), client, *output)
		}
		s, err := client.Status(c.Context(), 0, control.Wait{})
		if err != nil {
			return err
		}
		if *output == asJSON {
			return document.Write(a.out, s)
		}
		return printStatus(a.out, s)
	}
	return c
}

// clearScreen clears a terminal (ECMA-48: home, erase, erase what was scrolled away).
const clearScreen = "\x1b[H\x1b[2J\x1b[3J"

// watchStatus prints the status whenever something has happened. A daemon that restarts
// is waited for.
func (a *app) watchStatus(ctx context.Context, client *control.Client, output format) error {
	var after uint64
	wait, shown := control.Wait{}, false
	for {
		s, err := client.Status(ctx, after, wait)
		switch {
		case err != nil && (ctx.Err() != nil || !shown):
			return unlessEnded(ctx, err)
		case err != nil:
			complain(a.err, err)
			after, wait = 0, control.Wait{}
			if !pause(ctx, retryPause) {
				return nil
			}
			continue
		}
		var picture bytes.Buffer
		if output == asJSON {
			err = document.WriteLine(&picture, s)
		} else {
			picture.WriteString(clearScreen)
			err = printStatus(&picture, s)
		}
		if err != nil {
			return err
		}
		if _, err := a.out.Write(picture.Bytes()); err != nil {
			return err
		}
		after, wait, shown = s.Sequence, control.Wait{For: watchPatience, Daemon: s.Daemon.Started}, true
		if !pause(ctx, redrawPause) {
			return nil
		}
	}
}
