package hostenv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// The bounds of the growing pause before a runtime that does not answer is asked
// again: a node's pods wait for the runtime first and then for their pools.
const (
	firstCallPause = 200 * time.Millisecond
	lastCallPause  = 5 * time.Second
)

// Link is a runtime that has answered.
type Link struct {
	client *cri.Client
	name   string // that it gives itself
	Driver cgroup.Driver
}

// Open connects to everything that the daemon writes to, once.
func Open(ctx context.Context, c *config.Config, t *topology.Topology) (h Host, closeAll func(), err error) {
	fs, err := cgroup.Open(CgroupRoot)
	if err != nil {
		return Host{}, nil, err
	}
	rt := noRuntime()
	if c.HasRuntime() {
		if rt, err = connect(ctx, c.RuntimeEndpoint, fs); err != nil {
			return Host{}, nil, err
		}
	}
	return assemble(fs, rt, c, t)
}

// Start holds the arguments of Wait.
type Start struct {
	Config   *config.Config
	Topology *topology.Topology
	// Reload reads the configuration again.
	Reload func() (*config.Config, error)
	// Recheck examines the host again after a wait for the runtime. Without a runtime the
	// first check could not see everything that forbids writes. Optional.
	Recheck func(context.Context, *config.Config) error
	Log     *slog.Logger
}

// Wait connects as OpenHost does, but asks until the runtime answers or ctx ends: a daemon
// starts with the node, perhaps before the runtime. Wait returns the configuration that is
// in force then, because the endpoint in the first one may have been wrong.
func Wait(ctx context.Context, s Start) (h Host, c *config.Config, closeAll func(), err error) {
	fs, err := cgroup.Open(CgroupRoot)
	if err != nil {
		return Host{}, nil, nil, err
	}
	rt, late := noRuntime(), false
	if s.Config.HasRuntime() {
		if rt, late, err = AwaitRuntime(ctx, &s, fs); err != nil {
			return Host{}, nil, nil, err
		}
	}
	if h, closeAll, err = assemble(fs, rt, s.Config, s.Topology); err != nil {
		return Host{}, nil, nil, err
	}
	if late && s.Recheck != nil {
		if err := s.Recheck(ctx, s.Config); err != nil {
			closeAll()
			return Host{}, nil, nil, err
		}
	}
	return h, s.Config, closeAll, nil
}

// assemble makes a host of what has been found. Whose endpoint is "none" has no
// runtime, and systemd all the more.
func assemble(fs *cgroup.FS, rt Link, c *config.Config, t *topology.Topology) (h Host, closeAll func(), err error) {
	h = Host{Cgroups: fs, Driver: rt.Driver, Possible: t.Possible, CPUs: kernelCPUs{os.DirFS(SysRoot)}, JournalFile: JournalPath(c), RunDir: c.RunDir, UnitFile: hostFile, CPUManager: managerOf(c)}
	h.Online = onlineNow(t)
	if h.Kernel, err = runningKernel(); err != nil {
		return Host{}, nil, err
	}
	h.Boot = ReadBoot(t.Possible)
	// Without NUMA, or without the controller, there is nothing to bind memory to.
	if root, err := fs.Read(""); err == nil {
		h.Nodes = root.EffectiveMems
	}
	closers := []func(){rt.Close}
	closeAll = func() {
		for _, end := range closers {
			end()
		}
	}
	if rt.client != nil {
		h.Runtime, h.NRISocket = rt.client, c.NRISocket
		if rt.name == crioName {
			h.CRIO = readManagers
		}
		if c.PodResourcesSocket != "" {
			client, err := podresources.Dial(c.PodResourcesSocket)
			if err != nil {
				closeAll()
				return Host{}, nil, err
			}
			h.Devices = kubelet{client, c.PodResourcesSocket}
			closers = append(closers, func() { _ = client.Close() }) // it only answers
		}
	}
	if rt.Driver == cgroup.DriverSystemd || systemdRuns() {
		units := cgroup.NewSystemd(t.Possible)
		h.Units = units
		closers = append(closers, units.Close)
	}
	return h, closeAll, nil
}

// runningKernel is what the kernel's release says of partitions.
func runningKernel() (cgroup.PartitionKernel, error) {
	b, err := os.ReadFile(ProcRoot + "/sys/kernel/osrelease")
	if err != nil {
		return cgroup.PartitionKernel{}, fmt.Errorf("read kernel release: %w", err)
	}
	return cgroup.ParsePartitionKernel(strings.TrimSpace(string(b)))
}

// onlineNow tells the CPUs that are online: those of the topology where the kernel does
// not.
func onlineNow(t *topology.Topology) func() cpuset.Set {
	return func() cpuset.Set {
		b, err := os.ReadFile("/sys/devices/system/cpu/online")
		if err != nil {
			return t.Online
		}
		online, err := cpuset.Parse(strings.TrimSpace(string(b)))
		if err != nil {
			return t.Online
		}
		return online
	}
}

// crioName is what CRI-O calls itself (cri-o, server/version.go).
const crioName = "cri-o"

// noRuntime is the link of a machine without a container runtime.
func noRuntime() Link { return Link{Driver: cgroup.DriverSystemd} }

func (rt Link) Close() {
	if rt.client != nil {
		_ = rt.client.Close() // nothing was sent that could be lost
	}
}

// systemdRuns is sd_booted(3).
func systemdRuns() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// AwaitRuntime asks until the runtime answers, and says whether it had to wait.
// The log and the service manager are told why, each time that changes. Before
// each further question the configuration is read again: its endpoint may be
// what is wrong.
func AwaitRuntime(ctx context.Context, s *Start, fs *cgroup.FS) (rt Link, late bool, err error) {
	w := wait{log: s.Log}
	ask := func() (Link, error) {
		var bad error
		if w.reason != "" {
			c, err := s.Reload()
			if err == nil {
				s.Config = c
			}
			bad = err
		}
		rt, err := connect(ctx, s.Config.RuntimeEndpoint, fs)
		if err != nil {
			return Link{}, errors.Join(err, bad)
		}
		return rt, nil
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstCallPause, lastCallPause
	rt, err = backoff.Retry(ctx, ask, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(w.report))
	if err != nil {
		return Link{}, true, err
	}
	w.over()
	return rt, w.reason != "", nil
}

// wait is the wait for the runtime as others see it.
type wait struct {
	log    *slog.Logger
	reason string
	since  time.Time
}

func (w *wait) report(err error, _ time.Duration) {
	if w.reason == "" {
		w.since = time.Now()
	}
	if err.Error() == w.reason {
		return
	}
	w.reason = err.Error()
	w.log.Warn("waiting for the container runtime", "reason", err)
	tellStatus(w.log, "waiting for the container runtime: "+w.reason)
}

func (w *wait) over() {
	if w.reason == "" {
		return
	}
	w.log.Info("the container runtime answers", "waited", time.Since(w.since).Round(time.Millisecond))
	tellStatus(w.log, "looking at the node")
}

// connect finds the runtime, unless its endpoint is configured, and asks it for
// its name and its cgroup driver.
func connect(ctx context.Context, endpoint string, fs *cgroup.FS) (Link, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	if endpoint == "" {
		var err error
		if endpoint, err = cri.Find(ctx, "/"); err != nil {
			return Link{}, err
		}
	}
	client, err := cri.Dial(endpoint)
	if err != nil {
		return Link{}, err
	}
	rt := Link{client: client}
	// Any version will do. But a containerd whose CRI plugin is switched off looks
	// like an old runtime to the question for the driver.
	if rt.name, _, err = client.Version(ctx); err == nil {
		rt.Driver, err = findDriver(ctx, client, fs)
	}
	if err != nil {
		rt.Close()
		return Link{}, fmt.Errorf("ask %s: %w", endpoint, err)
	}
	return rt, nil
}

// findDriver asks the runtime for its cgroup driver. Runtimes that cannot answer
// are judged by the kubelet's cgroup, and without one by whether systemd runs.
func findDriver(ctx context.Context, client *cri.Client, fs *cgroup.FS) (cgroup.Driver, error) {
	d, err := client.CgroupDriver(ctx)
	switch {
	case err == nil:
		return cgroup.Driver(d), nil
	case !errors.Is(err, cri.ErrNotSupported):
		return "", err
	}
	// systemd's first: a node with its driver may have a cgroup kubepods too, made
	// by hand to keep the controllers.
	if _, err := fs.Read("kubepods.slice"); err == nil {
		return cgroup.DriverSystemd, nil
	}
	if _, err := fs.Read("kubepods"); err == nil {
		return cgroup.DriverCgroupfs, nil
	}
	if systemdRuns() {
		return cgroup.DriverSystemd, nil
	}
	return cgroup.DriverCgroupfs, nil
}
