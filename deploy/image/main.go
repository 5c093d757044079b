// Command image packs cpupoold's programs into the container image of deploy/, for all
// of their architectures, as a tar in OCI's layout:
//
//	image -o image.tar -ref localhost/cpupoold/cpupoold:1 -from bin/image -entrypoint cpupoold
//
// The directory -from has one of programs for each architecture, named as Go names it:
// bin/image/amd64/cpupoold is /usr/local/bin/cpupoold in the image for amd64.
// `ctr images import`, `docker load`, `podman load` and skopeo read the tar.
// The same programs make the same bytes: owners are root and times are zero.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error, once
	out := flags.String("o", "", "write the image to this `file`")
	ref := flags.String("ref", "", "`name:tag` of the image, with a registry: localhost/NAME:TAG")
	from := flags.String("from", "", "`directory` with one of programs for each architecture")
	entrypoint := flags.String("entrypoint", "", "`program` that runs unless another is named")
	version := flags.String("version", "", "`version` of the programs, for the label of the image")
	revision := flags.String("revision", "", "`commit` of the programs, for the label of the image")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stderr)
			flags.PrintDefaults()
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *out == "" || *ref == "" || *from == "" || *entrypoint == "" {
		return errors.New("-o, -ref, -from and -entrypoint are required")
	}
	tag, err := name.NewTag(*ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("parse -ref %q: %w", *ref, err)
	}
	labels := map[string]string{
		"org.opencontainers.image.title":    *entrypoint,
		"org.opencontainers.image.source":   "https://github.com/cpupoold/cpupoold",
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	for key, value := range map[string]string{"version": *version, "revision": *revision} {
		if value != "" {
			labels["org.opencontainers.image."+key] = value
		}
	}
	index, err := build(*from, *entrypoint, labels)
	if err != nil {
		return err
	}
	return write(*out, index, tag)
}
