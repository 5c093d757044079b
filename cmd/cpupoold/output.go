package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
)

type format string

const (
	asTable format = "table"
	asJSON  format = "json"
)

func (f *format) String() string { return string(*f) }

func (f *format) Set(s string) error {
	if *f = format(s); *f != asTable && *f != asJSON {
		return fmt.Errorf("%q is neither json nor table", s)
	}
	return nil
}

func (f *format) Type() string { return "json|table" }

func outputFlag(c *cobra.Command) *format {
	f := asTable
	c.Flags().VarP(&f, "output", "o", "output format")
	return &f
}

func (a *app) show(as format, value any, text func(w *layout.Writer)) error {
	if as == asJSON {
		return document.Write(a.out, value)
	}
	return layout.Print(a.out, text)
}

// announce prints text on the standard error if that is a terminal and the caller does not
// stop it within a second.
func (a *app) announce(text string) (stop func() bool) {
	if f := a.terminal(); f != nil {
		return time.AfterFunc(time.Second, func() { _, _ = fmt.Fprintln(f, text) }).Stop
	}
	return func() bool { return false }
}

// terminal returns the standard error if it is a terminal, or nil.
func (a *app) terminal() *os.File {
	if f, ok := a.err.(*os.File); ok {
		if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
			return f
		}
	}
	return nil
}

func printUnread(w *layout.Writer, unread []string) {
	for _, u := range unread {
		fmt.Fprintf(w, "not read: %s\n", layout.Printable(u))
	}
}
