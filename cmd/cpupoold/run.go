package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/memorylimit"
	"github.com/cpupoold/cpupoold/internal/node/daemon"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/version"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func (a *app) run() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Keep the node's containers and units on their CPUs",
		Long: `Run keeps every container of the node, and the systemd units of the configuration, on the
CPUs of their pools until it is stopped. All of them keep their CPUs after its end. The
command restore restores the original values.

It refuses to start next to another manager of cpusets: a kubelet with the CPU manager
policy static, workloads of CRI-O, or an NRI plugin that places containers. It starts with
the keys otherManagers or guaranteed.exclusive, which divide the containers between the two.
The command check prints the manager with its remedy, and all other reasons against a start.
With mode: observe, the daemon reports each write that it would make, and writes nothing. It
waits for a container runtime that does not answer; systemctl status and the log state the
reason.

The daemon reads the configuration again after a change of the file, and on SIGHUP. It
reports a configuration with problems, and keeps the one in force.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.doRun(c.Context()) },
	}
}

func (a *app) doRun(ctx context.Context) error {
	limitResources()
	file := a.configPath()
	c, t, err := a.load()
	if err != nil {
		return err
	}
	log := a.logger(c)
	memorylimit.Set(log, 0.5) // a large list is live and garbage at once, and the program's file has about 25 MiB
	if err := a.admit(ctx, c, t, log); err != nil {
		return err
	}
	for _, w := range t.Warnings {
		log.Warn("topology of the machine", "warning", w)
	}
	return daemon.Run(ctx, daemon.Options{
		Start: hostenv.Start{
			Config:   c,
			Topology: t,
			Reload:   func() (*config.Config, error) { return a.reload(file, readTopology) },
			Recheck:  func(ctx context.Context, c *config.Config) error { return a.admit(ctx, c, nil, log) },
			Log:      log,
		},
		ConfigFile:  file,
		Hangup:      a.hangup,
		Build:       telemetry.Build(version.Read()),
		Environment: environment(),
	})
}

// environment returns the variables that the manifest of the pod and the kubelet set for this process.
func environment() nodestatus.Environment {
	return nodestatus.Environment{
		NodeName: os.Getenv("NODE_NAME"),
		APIHost:  os.Getenv("KUBERNETES_SERVICE_HOST"),
		APIPort:  os.Getenv("KUBERNETES_SERVICE_PORT"),
		Version:  version.Read().Version,
	}
}

// reload reads the configuration and the machine again. file is the configuration at the start of the
// daemon. It is empty if the daemon started without a file. A file that is missing since is an error:
// the defaults have no guaranteed pool, so all containers would lose their exclusive CPUs.
func (a *app) reload(file string, machine func() (*topology.Topology, error)) (*config.Config, error) {
	if file == "" {
		file = a.configPath() // the file can be newer than the start
	}
	return a.read(file, machine)
}

// admit logs the warnings and errors of check, and returns an error on hosts on which the daemon must
// not write. A missing answer of the runtime is only logged, because the daemon waits for it. Without
// a topology, admit reads the machine's.
func (a *app) admit(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) error {
	host := preflight.Local()
	host.Claims, host.Topology = restore.Claims, t
	findings := preflight.Run(ctx, host, preflight.Configuration{File: a.configPath(), Config: c})
	for _, f := range findings {
		if f.Severity == preflight.Warning || f.Severity == preflight.Error {
			log.Warn("check", "name", f.Check, "severity", f.Severity.String(), "finding", f.String())
		}
	}
	refusals := preflight.Refusals(findings)
	if len(refusals) == 0 {
		return nil
	}
	for _, f := range refusals {
		_, _ = fmt.Fprintf(layout.Lines(a.err), "cpupoold: %s\n", f) // an error has no other destination
	}
	return fmt.Errorf("refusing to run: %d of the problems above make its writes useless or harmful", len(refusals))
}

// limitResources limits the CPUs and the memory of the daemon; figures are in docs/explanation/cost.md.
func limitResources() {
	// Management pools are small, and the loop is one goroutine.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	// With transparent_hugepage=always, pages of 2 MiB that are used in part cost several MiB. An error
	// costs only this memory.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
}

func (a *app) check() *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Examine host and configuration, and print all problems",
		Long: `Check examines the host and the configuration as run does before its first write, and
prints all findings, the most severe first. Exit code 3 means an error, or a reason for which
run refuses to start.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(a.configPath(), a.overrides, nil)
		host := preflight.Local()
		host.Claims = restore.Claims
		host.Changes = func(ctx context.Context) ([]string, error) {
			t, err := readTopology()
			if err != nil {
				return nil, err
			}
			p, err := preview.DryRun(ctx, cfg, t, slog.New(slog.DiscardHandler)) // other checks report what it would log
			return p.Changes, err
		}
		findings := preflight.Run(c.Context(), host,
			preflight.Configuration{File: a.configPath(), Config: cfg, Err: err})
		if err := a.show(*output, findings, func(w *layout.Writer) { printFindings(w, findings) }); err != nil {
			return err
		}
		if len(findings) > 0 && findings[0].Severity >= preflight.Error {
			return exitCode(exitFindings)
		}
		return nil
	}
	return c
}

func printFindings(w *layout.Writer, findings []preflight.Finding) {
	for _, f := range findings {
		fmt.Fprintf(layout.Lines(w), "%-7s %s: %s\n", f.Severity, f.Check, f)
	}
	if len(findings) == 0 {
		fmt.Fprintln(w, "No problems found.")
	} else {
		fmt.Fprintln(w, codes.Hint())
	}
}
