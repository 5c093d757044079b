// Command release builds the files of a release from the commit of a tag:
//
//	release -repository .. -o ../dist -image ghcr.io/cpupoold/cpupoold
//
// It clones the commit and builds in the clone, so that files outside of Git have no effect.
// The same commit and the same release of Go make the same bytes. docs/how-to/install/release-files.md
// lists the files.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(log)
	repository := flags.String("repository", ".", "`directory` of the Git repository")
	given := flags.String("version", "", "`version` of the release; by default the tag of the commit")
	out := flags.String("o", "dist", "new or empty `directory` for the files")
	image := flags.String("image", "ghcr.io/cpupoold/cpupoold", "`repository` to which the image will be pushed")
	url := flags.String("url", "https://github.com/cpupoold/cpupoold/releases/download", "`address` below which the files of TAG will be, at TAG/FILE")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	stdlog.SetOutput(io.Discard) // helm logs each link of the chart
	r := &release{image: *image, url: *url, out: *out, log: log}
	if err := r.find(ctx, *repository, *given); err != nil {
		return err
	}
	if err := emptyDir(*out); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "cpupoold-release-")
	if err != nil {
		return err
	}
	r.work = work
	return errors.Join(r.make(ctx, *repository), os.RemoveAll(work))
}

// emptyDir makes a directory, or checks that it is empty.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty; remove it, or name another directory with -o", dir)
	}
	return err
}
