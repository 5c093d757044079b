// Command kubectl-cpupool is a kubectl plugin for authors of workloads and
// administrators. It needs no node. See `kubectl cpupool help`.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/internal/version"
)

// Exit codes.
const (
	exitOK    = 0
	exitError = 1 // could not do it, or lint has found something
	exitUsage = 2 // command line not understood
	// exitRefused means that a simulation refuses a request or lacks an object, or that check finds
	// an error.
	exitRefused = 3
)

func main() {
	os.Exit(execute(streams{os.Stdin, layout.Output(os.Stdout, os.Getenv("COLUMNS")), os.Stderr}, os.Args[1:]))
}

type streams struct {
	in       io.Reader
	out, err io.Writer
}

// show prints a value as JSON, or as the text that a function writes.
func (s streams) show(format string, value any, text func(w *layout.Writer)) error {
	if format == "json" {
		return document.Write(s.out, value)
	}
	return layout.Print(s.out, text)
}

// errReported is the error for findings that are already on the standard output.
var errReported = errors.New("findings") //nolint:gochecknoglobals // compared, never changed

// errRefused is the error of exitRefused. The result has been printed.
var errRefused = errors.New("refused") //nolint:gochecknoglobals // compared, never changed

func execute(s streams, args []string) int {
	root := rootCommand(s)
	usage.Prepare(root)
	root.SetArgs(args)
	err := root.Execute()
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errReported):
		return exitError
	case errors.Is(err, errRefused):
		return exitRefused
	}
	complain(s.err, err)
	return usage.Report(s.err, err)
}

func rootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:     "kubectl-cpupool",
		Short:   "Inspect and plan the CPU pools of a cluster",
		Version: version.Read().String(),
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(mutateCommand(s), lintCommand(s), adoptCommand(s), simulateCommand(s), sizeCommand(s), importCommand(s), renderCommand(s), serveCommand(s), checkCommand(s), nodesCommand(s), describeCommand(s), explainCommand(s), topCommand(s))
	return root
}

// complain prints each of joined errors on a line of its own.
func complain(w io.Writer, err error) {
	for _, one := range usage.Each(err) {
		fmt.Fprintln(layout.Lines(w), "kubectl-cpupool:", one)
	}
}
