package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/version"
)

func (a *app) version() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go release",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := version.Read()
		return a.show(*output, b, func(w *layout.Writer) { fmt.Fprintln(w, "cpupoold", b) })
	}
	return c
}
