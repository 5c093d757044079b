package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/document"
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
		if *output == asJSON {
			return document.Write(a.out, b)
		}
		_, err := fmt.Fprintln(a.out, "cpupoold", b)
		return err
	}
	return c
}
