package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/preview"
)

func (a *app) check() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Examine host and configuration and print all problems at once",
		Long: `Check examines the host and the configuration as run does before its first write, and
prints everything that is wrong or worth knowing, the gravest first. It exits with 3 if
there is an error or a reason for which run would refuse to start.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(a.configPath(), a.overrides, nil)
		host := preflight.Local()
		host.Changes = func(ctx context.Context) ([]string, error) {
			t, err := readTopology()
			if err != nil {
				return nil, err
			}
			p, err := preview.DryRun(ctx, cfg, t, slog.New(slog.DiscardHandler)) // other checks report what it would log
			return p.Changes, err
		}
		findings := preflight.Run(c.Context(), host,
			preflight.Configuration{File: a.configPath(), Config: cfg, Err: err})
		if err := a.printFindings(findings, *output); err != nil {
			return err
		}
		for _, f := range findings {
			if f.Severity >= preflight.Error {
				return exitCode(exitFindings)
			}
		}
		return nil
	}
	return c
}

func (a *app) printFindings(findings []preflight.Finding, output format) error {
	return a.show(output, findings, func(w *layout.Writer) {
		for _, f := range findings {
			fmt.Fprintf(layout.Lines(w), "%-7s %s: %s\n", f.Severity, f.Check, f)
		}
		if len(findings) == 0 {
			fmt.Fprintln(w, "No problems found.")
		} else {
			fmt.Fprintln(w, codes.Hint())
		}
	})
}
