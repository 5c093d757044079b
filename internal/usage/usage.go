// Package usage runs command lines, and reports their errors. It reports command lines that are not
// understood with the command or flag that is meant.
package usage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cpupoold/cpupoold/internal/spelling"
)

// Error is the error of a command line that is not understood. Programs exit with 2.
type Error struct {
	error
	// Command is the command with its path.
	Command string
}

func (e *Error) Unwrap() error { return e.error }

// New returns an error of a command line of cmd.
func New(cmd *cobra.Command, err error) error {
	if _, is := errors.AsType[*Error](err); is {
		return err
	}
	return &Error{err, cmd.CommandPath()}
}

// Run runs a command line of a program, and returns the exit code. It prints an error after the name of the
// program. The program has no command completion.
func Run(ctx context.Context, program *cobra.Command, out, errs io.Writer, args []string) int {
	program.CompletionOptions.DisableDefaultCmd = true
	Prepare(program)
	program.SetOut(out)
	program.SetErr(errs)
	program.SetArgs(args)
	err := program.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(errs, "%s: %v\n", program.Name(), err)
	return Report(errs, err)
}

// Each returns the errors that errors.Join has joined, or the only error.
func Each(err error) (all []error) {
	joined, is := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	switch {
	case err == nil:
		return nil
	case !is || len(joined.Unwrap()) == 0 || errors.Join(joined.Unwrap()...).Error() != err.Error(): // a text is around them
		return []error{err}
	}
	for _, one := range joined.Unwrap() {
		all = append(all, Each(one)...)
	}
	return all
}

// Report returns the exit code of a program that ends with err: 2 for an [Error], and otherwise 1.
// For an Error, it names the command with help.
func Report(w io.Writer, err error) int {
	bad, is := errors.AsType[*Error](err)
	if !is {
		return 1
	}
	_, _ = fmt.Fprintf(w, "See '%s --help'\n", bad.Command)
	return 2
}

// Prepare makes the errors about flags and arguments of a command and its subcommands an [Error]. It
// adds the commands help and completion, which fail for an unknown name. The program prints all errors.
func Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// The flags of a misspelt command are unknown, too.
		if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
			return New(cmd, unknown(cmd, args[0]))
		}
		return New(cmd, flagError(cmd, err))
	})
	prepare(root)
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				at := root
				for _, name := range args {
					i := slices.IndexFunc(at.Commands(), func(c *cobra.Command) bool { return c.Name() == name || c.HasAlias(name) })
					if i < 0 {
						return New(cmd, unknown(at, name))
					}
					at = at.Commands()[i]
				}
				return nil
			}
		case "completion":
			// Without RunE, cobra prints help for an unknown shell.
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

func prepare(cmd *cobra.Command) {
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		err := check(cmd, args)
		switch {
		case err == nil:
			return nil
		case len(args) > 0 && strings.HasPrefix(err.Error(), "unknown command "): // of cobra.NoArgs
			err = unknown(cmd, args[0])
		}
		return New(cmd, err)
	}
	for _, sub := range cmd.Commands() {
		prepare(sub)
	}
}

// unknown returns the error of an argument of a command that takes none.
func unknown(cmd *cobra.Command, arg string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			names = append(names, sub.Name())
		}
	}
	text := fmt.Sprintf("unknown command %q for %q", arg, cmd.CommandPath())
	if len(names) == 0 {
		text = fmt.Sprintf("%s takes no argument %q", cmd.Name(), arg)
		if cmd.Flags().Lookup("filename") != nil {
			text += "; name files with -f"
		}
	}
	if meant := spelling.Near(arg, names); meant != "" {
		text += "; did you mean " + meant + "?"
	}
	return errors.New(text)
}

// flagError adds the flag that is meant to the error of an unknown flag.
func flagError(cmd *cobra.Command, err error) error {
	bad, is := errors.AsType[*pflag.NotExistError](err)
	if !is {
		return err
	}
	name := cmp.Or(bad.GetSpecifiedShortnames(), bad.GetSpecifiedName())
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	meant := spelling.Near(name, names)
	if bad.GetSpecifiedShortnames() != "" && slices.Contains(names, name) {
		meant = name // -output instead of --output
	}
	if meant == "" {
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, meant)
}
