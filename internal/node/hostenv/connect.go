package hostenv

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/podresources"
	"github.com/cpupoold/cpupoold/pkg/systemd"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Bounds of the growing pause between calls of the runtime. They are short, because the pods of a
// node wait for the runtime first.
const (
	firstCallPause = 200 * time.Millisecond
	lastCallPause  = 5 * time.Second
)

// Open connects to everything that the daemon writes to. It asks the runtime once.
func Open(ctx context.Context, c *config.Config, t *topology.Topology) (h Host, closeAll func(), err error) {
	fs, err := cgroup.Open(kernelfs.CgroupRoot)
	if err != nil {
		return Host{}, nil, err
	}
	rt, err := connect(ctx, c, fs)
	if err != nil {
		return Host{}, nil, err
	}
	return assemble(fs, rt, c, t)
}

// Start is the start of a daemon that waits for the runtime.
type Start struct {
	Config   *config.Config
	Topology *topology.Topology
	// Reload reads the configuration again.
	Reload func() (*config.Config, error)
	// Recheck examines the host again after a wait for the runtime. Without a runtime the
	// first check could not see everything that forbids writes. Its error ends Wait. Optional.
	Recheck func(context.Context, *config.Config) error
	Log     *slog.Logger
}

// Wait connects as Open does, but asks until the runtime answers or ctx ends: a daemon
// starts with the node, perhaps before the runtime. Wait returns the configuration that is
// in force then, because the endpoint in the first one may have been wrong.
func (s Start) Wait(ctx context.Context) (h Host, c *config.Config, closeAll func(), err error) {
	fs, err := cgroup.Open(kernelfs.CgroupRoot)
	if err != nil {
		return Host{}, nil, nil, err
	}
	rt, late, err := s.awaitRuntime(ctx, fs)
	if err != nil {
		return Host{}, nil, nil, err
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

// assemble returns the host. A machine without a runtime always has systemd.
func assemble(fs *cgroup.FS, rt link, c *config.Config, t *topology.Topology) (h Host, closeAll func(), err error) {
	h = Host{
		Cgroups: fs, Driver: rt.driver, Possible: t.Possible, CPUs: usablecpus.Kernel{Sys: kernelfs.Dir(kernelfs.SysRoot)}, Online: onlineCPUs(t),
		JournalFile: c.JournalFile(), RunDir: c.RunDir, RecentDir: inMemory(c.RunDir), UnitFile: hostslices.OfTheHost(func(name string) ([]byte, error) { return readFile(name, unitFileLimit) }), Boot: readBoot(t.Possible),
	}
	if c.Pools.Guaranteed.Kubelet {
		h.CPUManager = &stateFile{name: path.Join(c.KubeletStateDir, cpuManagerFile), read: readFile}
	}
	if h.Kernel, err = runningKernel(); err != nil {
		return Host{}, nil, err
	}
	// Without NUMA, or without the controller, there is nothing to bind memory to.
	if root, err := fs.Read(""); err == nil {
		h.Nodes = root.EffectiveMems
	}
	closers := []func(){rt.close}
	closeAll = func() {
		for _, end := range closers {
			end()
		}
	}
	if rt.client != nil {
		h.Runtime, h.Annotations, h.NRISocket = rt.client, rt.annotations, c.NRISocket
		if rt.guessed {
			h.confirm = func(ctx context.Context) error {
				return confirm(ctx, c, rt.endpoint, finder{kubeletEndpoint, cri.Find}, rt.hasPods)
			}
		}
		if rt.name == crioName {
			h.CRIO = readCRIO
		}
		if c.PodResourcesSocket != "" {
			client, err := podresources.Dial(c.PodResourcesSocket)
			if err != nil {
				closeAll()
				return Host{}, nil, err
			}
			h.Devices = client
			closers = append(closers, func() { _ = client.Close() }) // it is only read from
		}
	}
	if rt.driver == cgroup.DriverSystemd || systemdRuns() {
		units := systemd.New(t.Possible)
		h.Units = units
		closers = append(closers, units.Close)
	}
	return h, closeAll, nil
}

// awaitRuntime asks until the runtime answers, and reads the configuration again before each further
// question: the endpoint may be wrong.
func (s *Start) awaitRuntime(ctx context.Context, fs *cgroup.FS) (rt link, late bool, err error) {
	w := wait{log: s.Log}
	ask := func() (link, error) {
		var bad error
		if w.reason != "" {
			c, err := s.Reload()
			if err == nil {
				s.Config = c
			}
			bad = err
		}
		rt, err := connect(ctx, s.Config, fs)
		if err != nil {
			return link{}, errors.Join(err, bad)
		}
		return rt, nil
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstCallPause, lastCallPause
	rt, err = backoff.Retry(ctx, ask, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0), backoff.WithNotify(w.report))
	if err != nil {
		return link{}, true, err
	}
	w.end(s.Config)
	return rt, w.reason != "", nil
}

type wait struct {
	log    *slog.Logger
	reason string // empty: no question has failed
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
	service.NotifyStatus(w.log, "waiting for the container runtime: "+w.reason)
}

func (w *wait) end(c *config.Config) {
	if w.reason == "" {
		return
	}
	waited := time.Since(w.since).Round(time.Millisecond)
	if c.HasRuntime() {
		w.log.Info("the container runtime answers", "waited", waited)
	} else {
		w.log.Info("the changed configuration is for a machine without a container runtime", "waited", waited)
	}
	service.NotifyStatus(w.log, "looking at the node")
}
