package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

func (a *app) version() *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go release",
		Args:  cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		b := build()
		if *output == asJSON {
			return printJSON(a.out, b)
		}
		_, err := fmt.Fprintf(a.out, "cpupoold %s, commit %s, %s\n", b.Version, b.Revision, b.Go)
		return err
	}
	return c
}

// build is what the Go linker has noted.
func build() telemetry.Build {
	b := telemetry.Build{Version: "unknown", Revision: "unknown", Go: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version, b.Go = info.Main.Version, info.GoVersion
	dirty := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			b.Revision = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	b.Revision += dirty
	return b
}
