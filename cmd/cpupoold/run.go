package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/memorylimit"
	"github.com/cpupoold/cpupoold/internal/node/daemon"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/preflight"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/version"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func (a *app) run() *cobra.Command {
	return &cobra.Command{
		Use:   "run",
		Short: "Keep the node's containers and units on their CPUs",
		Long: `Run keeps every container of the node, and the systemd units of the configuration, on the
CPUs of their pools until it is stopped. It changes nothing when it stops: they stay where
they are. See restore.

It refuses to start where another manager of cpusets is at work (the kubelet's static
CPU manager policy, CRI-O's workloads table), unless otherManagers has it leave just that
one's containers alone; check says which, and what else is wrong. With mode: observe it
reports what it would write, and writes nothing.
A container runtime that does not answer is waited for; systemctl status and the log say why.

SIGHUP, and any change of the file, read the configuration again. A configuration with
problems is reported and the one in force stays.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.doRun(c.Context()) },
	}
}

func (a *app) doRun(ctx context.Context) error {
	frugal()
	file := a.configPath()
	c, t, err := a.load()
	if err != nil {
		return err
	}
	log := a.logger(c)
	memorylimit.Set(log, 0.5) // a large list is live and garbage at once, and the program's file has about 25 MiB
	if err := a.admit(ctx, c, log); err != nil {
		return err
	}
	for _, w := range t.Warnings {
		log.Warn("topology of the machine", "warning", w)
	}
	return daemon.Run(ctx, daemon.Options{
		Config:     c,
		Topology:   t,
		ConfigFile: file,
		Reload:     func() (*config.Config, error) { return a.reload(file, readTopology) },
		Recheck:    func(ctx context.Context, c *config.Config) error { return a.admit(ctx, c, log) },
		Hangup:     a.hangup,
		Build:      telemetry.Build(version.Read()),
		Log:        log,

		Environment: environment(),
	})
}

// environment returns the values that the pod's manifest and the kubelet set for this process.
func environment() nodestatus.Environment {
	return nodestatus.Environment{
		NodeName: os.Getenv("NODE_NAME"),
		APIHost:  os.Getenv("KUBERNETES_SERVICE_HOST"),
		APIPort:  os.Getenv("KUBERNETES_SERVICE_PORT"),
		Version:  version.Read().Version,
	}
}

// reload reads the configuration again that the daemon has started with, which
// was in file unless that is empty. A file that has gone since is an error: the
// defaults have no guaranteed pool, and would take every container's CPUs away. The
// machine is read again, because CPUs may have changed.
func (a *app) reload(file string, machine func() (*topology.Topology, error)) (*config.Config, error) {
	if file == "" {
		file = a.configPath() // it may have been made since
	}
	return a.read(file, machine)
}

// admit logs the findings of check, and refuses hosts on which the daemon must not
// write. It accepts a runtime that does not answer: the daemon waits for it.
func (a *app) admit(ctx context.Context, c *config.Config, log *slog.Logger) error {
	findings := preflight.Run(ctx, preflight.Local(), preflight.Configuration{File: a.configPath(), Config: c})
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

// frugal limits the CPU time and the memory of the daemon, which workloads need;
// figures are in docs/explanation/cost.md.
func frugal() {
	// The node has few CPUs for the likes of us, and the loop is one goroutine.
	runtime.GOMAXPROCS(min(2, runtime.NumCPU()))
	// Mostly empty pages of 2 MiB cost several MiB of memory if the kernel uses them for all
	// processes (transparent_hugepage=always). A failure costs only this memory.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
}
