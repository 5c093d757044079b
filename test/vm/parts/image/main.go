// Command image packs files of the host into a container image of one layer, as a tar that `ctr images import` reads:
//
//	image -o work.tar -ref localhost/cpupoold/work:1 -file bin/work:/work -entrypoint /work
//
// -file HOST:GUEST[:MODE] may be repeated; MODE is octal, 755 by default. -entrypoint and -cmd may be repeated, one for each word.
// The same files make the same bytes: owners are root and times are zero.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
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
	var s spec
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error, once
	out := flags.String("o", "", "write the image to this `file`")
	ref := flags.String("ref", "", "`name:tag` of the image, with a registry: localhost/NAME:TAG")
	flags.Var(words{&s.entrypoint}, "entrypoint", "`word` of the entry point")
	flags.Var(words{&s.cmd}, "cmd", "`word` of the default arguments")
	flags.Var(files{&s.files}, "file", "`HOST:GUEST[:MODE]`, a file of the image")
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
	if *out == "" || *ref == "" || len(s.files) == 0 || len(s.entrypoint) == 0 {
		return errors.New("-o, -ref, -file and -entrypoint are required")
	}
	tag, err := name.NewTag(*ref, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("parse -ref %q: %w", *ref, err)
	}
	img, err := s.build()
	if err != nil {
		return err
	}
	// A reader must never see half an image under the final name.
	part := *out + ".part"
	if err := tarball.WriteToFile(part, tag, img); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", part, err), os.Remove(part))
	}
	return os.Rename(part, *out)
}
