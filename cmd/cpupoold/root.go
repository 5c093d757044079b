// Command cpupoold keeps the CPU pools of a node apart. See `cpupoold help`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/internal/version"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Exit codes of every subcommand.
const (
	exitOK       = 0
	exitError    = 1 // could not do it
	exitUsage    = 2 // command line not understood
	exitFindings = 3 // done, and the answer is not "all well": see check, audit and restore
)

// defaultConfig is read when it exists and --config is not given.
const defaultConfig = "/etc/cpupoold/config.yaml"

type streams struct {
	out, err io.Writer
	hangup   <-chan os.Signal
}

// exitCode is an error that has been reported already.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// app is what all subcommands share.
type app struct {
	streams
	configFile string
	overrides  config.Overrides
}

func execute(ctx context.Context, s streams, args []string) int {
	a := &app{streams: s}
	root := a.command()
	usage.Prepare(root)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return int(code)
	}
	complain(s.err, err)
	if config.IsFromFlag(err) {
		return exitUsage
	}
	return usage.Report(s.err, err)
}

// complain prints each of joined errors on a line of its own. A list of names is as wide as the
// screen at most.
func complain(w io.Writer, err error) {
	if _, names := errors.AsType[*inspect.NameError](err); names {
		_ = layout.Print(w, func(w *layout.Writer) { w.Paragraph("cpupoold: " + err.Error()) }) // an error has no other destination
		return
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		_, _ = fmt.Fprintln(w, "cpupoold: "+layout.Printable(line)) // an error has no other destination
	}
}

func (a *app) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "cpupoold",
		Short: "Keep management, shared and guaranteed CPUs of a node apart",
		Long: `cpupoold keeps three kinds of work apart on the CPUs of a node: platform services
(management pools), ordinary pods (shared pool) and latency-critical containers with
exclusive CPUs (guaranteed pool). It needs cgroup v2 and a CRI runtime. For units alone,
systemd is sufficient.

Exit codes: 0 success, 1 failure, 2 usage. Check, audit, restore and plan --defrag --apply
also use 3: success with findings or remaining differences.`,
		Version: version.Read().String(),
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(a.out)
	root.SetErr(a.err)
	flags := root.PersistentFlags()
	flags.StringVar(&a.configFile, "config", "", "configuration `file` (default "+defaultConfig+", if it exists)")
	a.overrides.AddFlags(flags)
	root.AddCommand(a.run(), a.topology(), a.plan(), a.check(), a.audit(), a.latency(), a.restore(), a.version())
	root.AddCommand(a.status(), a.explain(), a.events(), a.report())
	return root
}

// configPath returns the path of the configuration; "" without a file.
func (a *app) configPath() string {
	if a.configFile != "" {
		return a.configFile
	}
	if _, err := os.Stat(defaultConfig); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return defaultConfig
}

func (a *app) load() (*config.Config, *topology.Topology, error) {
	t, err := readTopology()
	if err != nil {
		return nil, nil, err
	}
	c, err := a.read(a.configPath(), func() (*topology.Topology, error) { return t, nil })
	return c, t, err
}

// read reads a configuration. The error for a file with mistakes includes the
// settings that the machine does not allow, so that the user sees all problems at
// once. These settings alone are no error: after a reboot into another machine, the
// daemon adapts them.
func (a *app) read(file string, machine func() (*topology.Topology, error)) (*config.Config, error) {
	c, err := config.Load(file, a.overrides, nil)
	if err == nil {
		return c, nil
	}
	t, unread := machine()
	if unread != nil {
		return nil, errors.Join(err, unread)
	}
	return config.Load(file, a.overrides, t)
}

func readTopology() (*topology.Topology, error) { return topology.Read(kernelfs.Dir("/sys")) }

func (a *app) logger(c *config.Config) *slog.Logger {
	o := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(a.err, o))
	}
	return slog.New(slog.NewTextHandler(a.err, o))
}

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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal kills
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	os.Exit(execute(ctx, streams{out: layout.Output(os.Stdout, os.Getenv("COLUMNS")), err: os.Stderr, hangup: hangup}, os.Args[1:]))
}
