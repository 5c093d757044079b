package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/node/report"
)

// reportTime bounds how long a report may take to be gathered.
const reportTime = 90 * time.Second

func (a *app) report() *cobra.Command {
	c := &cobra.Command{
		Use:   "report",
		Short: "Write one archive for a bug report",
		Long: `Report writes a compressed archive (.tar.gz) with what is needed to understand a problem of
this node: versions, the machine's topology, the tree of cgroups with the files about CPUs, the
daemon's state and history, why everybody runs where they run, the configuration, what check finds, and the daemon's log in the
journal. What could not be had, as when the daemon does not answer, is told in MISSING.txt and
on the standard error; the rest is written all the same.

With --redact the names of namespaces, pods, containers, units, images and of the host are
replaced, each by the same word in all files. Only names that the report knows as such can be
replaced: read what is in the archive before you publish it. docs/report.md describes it.`,
		Args: cobra.NoArgs,
	}
	file := c.Flags().StringP("output", "o", "", "`file` to write, - for the standard output (default cpupoold-report-<host>-<time>.tar.gz)")
	redact := c.Flags().Bool("redact", false, "replace the names of namespaces, pods, containers, units, images and the host")
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := context.WithTimeout(c.Context(), reportTime)
		defer cancel()
		r := a.gatherReport(ctx, thisHost())
		return r.write(a, *file, *redact)
	}
	return c
}

// write writes the archive to a file that does not exist yet, or to the standard output.
func (r *reported) write(a *app, file string, redact bool) error {
	host := r.host
	if redact {
		r.redact()
		host = "node"
	}
	for _, m := range r.missing {
		_, _ = fmt.Fprintln(a.err, "cpupoold: missing in the report: "+printable(m))
	}
	dir := "cpupoold-report-" + cmp.Or(host, "node") + "-" + r.at.Format("20060102T150405Z")
	if file == "-" {
		return report.Write(a.out, dir, r.all(), r.at)
	}
	file = cmp.Or(file, dir+".tar.gz")
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; name another file with -o", file)
	}
	if err != nil {
		return err
	}
	if err := finish(to, func(w io.Writer) error { return report.Write(w, dir, r.all(), r.at) }); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(file))
	}
	_, err = fmt.Fprintln(a.out, file)
	return err
}

// finish writes a file and closes it, on the disk.
func finish(to *os.File, write func(io.Writer) error) error {
	err := write(to)
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}
