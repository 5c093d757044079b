package main

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/latency"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/usage"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Bounds of the flags of latency.
const (
	minLatencyDuration = time.Second
	maxLatencyDuration = time.Hour
	minGap             = time.Microsecond
	maxGap             = time.Second
)

// ownersInterval is the pause between two checks that the measured CPUs still have no owner.
const ownersInterval = 2 * time.Second

// progressInterval is the time between two lines on a terminal.
const progressInterval = 5 * time.Second

func (a *app) latency() *cobra.Command {
	c := &cobra.Command{
		Use:   "latency",
		Short: "Measure interruptions of free CPUs with the kernel's tracers",
		Long: `Latency runs the tracer osnoise or timerlat of the kernel on free guaranteed CPUs. It prints the
counts of interrupts, softirqs, threads and NMIs on each CPU, and the longest gaps with their
causes. A thread of the tracer keeps each of these CPUs busy.

A CPU with an owner is refused, and a CPU that shares a core with an owner. If a container
gets one of the CPUs, the measurement ends early. It finds the owners of CPUs as plan does.

The tracer osnoise reads the clock in a loop, and a gap is a time without the loop. The
tracer timerlat wakes a realtime thread each millisecond, and a gap is the time until it runs.

Latency makes a tracing instance of its own, and prints the tracing settings that it changes. It
restores them at the end, also after a signal (Ctrl-C), which ends it early. If it is killed,
the tracer keeps running: the next latency ends it, and restores the settings.

Only a kernel with CONFIG_OSNOISE_TRACER or CONFIG_TIMERLAT_TRACER has the tracers. In a virtual
machine the counts are correct, but the times differ from the times on hardware.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	list := c.Flags().String("cpus", "", "`list` of CPUs, such as 4-7 (default all free guaranteed CPUs)")
	duration := c.Flags().Duration("duration", 10*time.Second, "time of the measurement, 1s to 1h")
	tracer := c.Flags().String("tracer", "osnoise", "osnoise or timerlat")
	threshold := c.Flags().Duration("threshold", 5*time.Microsecond, "shortest gap that osnoise counts, in whole microseconds up to 1s")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cpus, err := cpuset.Parse(*list)
		switch {
		case *list != "" && err != nil:
			return usage.New(c, fmt.Errorf("--cpus %s: %w", *list, err))
		case *duration < minLatencyDuration || *duration > maxLatencyDuration:
			return usage.New(c, fmt.Errorf("--duration %v: write %v to %v", *duration, minLatencyDuration, maxLatencyDuration))
		case *tracer != "osnoise" && *tracer != "timerlat":
			return usage.New(c, fmt.Errorf("--tracer %q: write osnoise or timerlat", *tracer))
		case *threshold < minGap || *threshold > maxGap || *threshold%time.Microsecond != 0:
			return usage.New(c, fmt.Errorf("--threshold %v: write whole microseconds from %v to %v", *threshold, minGap, maxGap))
		}
		cfg, t, err := a.load()
		if err != nil {
			return err
		}
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return err
		}
		r, unread, err := measuring{
			candidates: func(ctx context.Context) (latency.Candidates, []string, error) {
				return candidates(ctx, cfg, t, a.logger(cfg))
			},
			run: latency.Run,
		}.measure(c.Context(), cpus, latency.Options{
			Tracer: *tracer, Duration: *duration, Threshold: *threshold,
			StateDir: cfg.RunDir, Boot: strings.TrimSpace(string(boot)), Progress: a.progress(*duration),
		})
		if r.PerCPU == nil && len(r.Cleaned) == 0 {
			return err
		}
		r.Unread, r.Virtual = unread, isVirtual(os.DirFS("/"))
		return cmp.Or(a.show(*output, r, func(w *layout.Writer) { printLatency(w, r) }), err)
	}
	return c
}

// measuring is a measurement on this machine, or on a test's fake.
type measuring struct {
	candidates func(context.Context) (latency.Candidates, []string, error)
	run        func(context.Context, latency.Options) (latency.Report, error)
}

// measure measures CPUs that have no owner, until one gets an owner.
func (m measuring) measure(ctx context.Context, cpus cpuset.Set, o latency.Options) (latency.Report, []string, error) {
	var chosen cpuset.Set
	var unread []string
	o.Choose = func(ctx context.Context) (cpuset.Set, error) {
		all, missed, err := m.candidates(ctx)
		if err == nil {
			chosen, err = all.Choose(cpus)
		}
		unread = missed
		return chosen, err
	}
	o.CheckInterval = ownersInterval
	o.Check = func(ctx context.Context) string {
		now, _, err := m.candidates(ctx)
		if err != nil {
			return "the owners of CPUs are unknown: " + err.Error()
		}
		if _, err := now.Choose(chosen); err != nil {
			line, _, _ := strings.Cut(err.Error(), "\n")
			reason, _, _ := strings.Cut(line, ": ") // without the remedy
			return reason
		}
		return ""
	}
	r, err := m.run(ctx, o)
	return r, unread, err
}

// candidates returns the CPUs of this node and their owners, as plan finds them.
func candidates(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) (latency.Candidates, []string, error) {
	h, closeHost, err := hostenv.Open(ctx, c, t)
	if err != nil {
		return latency.Candidates{}, nil, err
	}
	defer closeHost()
	p, err := preview.OnHost(ctx, &h, c, t, false, log)
	if err != nil {
		return latency.Candidates{}, nil, err
	}
	all := latency.Candidates{Online: h.Online(), Free: p.Plan.Free.Difference(p.Plan.Shared), Claims: make(map[int]string)}
	for _, core := range t.Cores {
		all.Cores = append(all.Cores, core.CPUs)
	}
	for _, place := range p.Ownership.Places {
		if place.Exclusive {
			o := audit.Owner{PoolName: place.PoolName, Pod: place.Pod, Name: place.Name, CPUs: place.CPUs}
			if place.PodPool {
				o.Name = ""
			}
			all.Owners = append(all.Owners, o)
		}
	}
	for _, pool := range p.Ownership.Pools {
		all.Owners = append(all.Owners, audit.Owner{PoolName: pool.PoolName, CPUs: pool.CPUs})
	}
	for _, claim := range p.Plan.Claims {
		for cpu := range claim.CPUs.All() {
			all.Claims[cpu] = claim.Namespace + "/" + claim.Name
		}
	}
	return all, p.Unread, nil
}

// progress returns a function that prints the elapsed time on a terminal, or nil.
func (a *app) progress(duration time.Duration) func(time.Duration) {
	f := a.terminal()
	if f == nil {
		return nil
	}
	next := progressInterval
	return func(elapsed time.Duration) {
		if elapsed >= next && elapsed < duration {
			next += progressInterval
			_, _ = fmt.Fprintf(f, "cpupoold: measured %v of %v; Ctrl-C ends with the findings so far\n", elapsed.Round(time.Second), duration)
		}
	}
}

// isVirtual reports whether this machine is virtual: x86 has a flag of the CPU, and arm64 the name of a
// virtual machine in its firmware.
func isVirtual(root fs.FS) bool {
	cpuinfo, err := fs.ReadFile(root, "proc/cpuinfo")
	if err == nil {
		for line := range strings.Lines(string(cpuinfo)) {
			name, flags, _ := strings.Cut(line, ":")
			if strings.TrimSpace(name) == "flags" {
				return strings.Contains(flags+" ", " hypervisor ") || strings.HasSuffix(strings.TrimSpace(flags), " hypervisor")
			}
		}
	}
	for _, file := range []string{"sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"} {
		text, err := fs.ReadFile(root, file)
		for _, name := range []string{"QEMU", "KVM", "VMware", "VirtualBox", "Virtual Machine"} {
			if err == nil && strings.Contains(string(text), name) {
				return true
			}
		}
	}
	_, err = fs.Stat(root, "proc/device-tree/hypervisor")
	return err == nil
}
