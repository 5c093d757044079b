// Package daemon is the loop that keeps a node's cgroups as planned.
//
// One goroutine, the owner (loop), holds all state. Sources only post events to
// its mailbox: the runtime's event stream, the configuration file, systemd, and
// workers that have finished a slow call. After each batch of events that somebody
// waits for the owner makes a pass, over all or, where a single pod or cgroup is
// concerned, over that (agenda.go): decide (pure: classify, allocate, plan), look (read the cgroups
// that are new or in doubt), compare (pure: the ordered writes), write. It
// writes files of cgroups itself, since that takes microseconds and never waits
// for anybody; calls of the runtime, of systemd and of the disk go to workers,
// and their results come back as events. So no stalled service can keep the
// owner from moving a container.
//
// Readers get an immutable view of the last pass.
package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Places of the kernel's file systems.
const (
	cgroupRoot = "/sys/fs/cgroup"
	procRoot   = "/proc"
	sysRoot    = "/sys"
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// Options are what the daemon is started with.
type Options struct {
	Config   *config.Config
	Topology *topology.Topology
	// ConfigFile is watched; empty means that there is none.
	ConfigFile string
	// Reload reads the configuration again.
	Reload func() (*config.Config, error)
	// Recheck examines the host again when the runtime was not there at the start,
	// before the first write: what it could not tell then may forbid to write.
	// Its error ends Run. Optional.
	Recheck func(context.Context, *config.Config) error
	// Hangup wakes a reload in addition to the watch (SIGHUP).
	Hangup <-chan os.Signal
	// Environment tells of the cluster, where the node is in one.
	Environment Environment
	Build       telemetry.Build
	Log         *slog.Logger
}

// Run keeps the node as planned until ctx ends. It takes the node's writer lock
// first and leaves everything in place at the end: containers stay where they
// are while no daemon runs. A runtime that does not answer is waited for. Errors
// are those of the start.
func Run(ctx context.Context, o Options) error {
	unlock, err := Lock(o.Config.RunDir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the kernel does it anyway
	h, closeHost, err := awaitHost(ctx, &o)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it waited
		}
		return err
	}
	defer closeHost()
	if o.Config.Mode == config.ModeObserve {
		h = h.observing()
	}
	return runOn(ctx, h, o)
}

func runOn(ctx context.Context, h host, o Options) error {
	l, err := newLoop(h, o)
	if err != nil {
		return err
	}
	if err := l.joinCluster(o); err != nil {
		return err
	}
	if err := l.askNamespaces(o); err != nil {
		return err
	}
	if l.tuner, err = l.newTuner(o.Log); err != nil {
		return err
	}
	server, err := telemetry.New(telemetry.Options{
		View:       l.viewWithAudit,
		Heartbeat:  l.notify.heartbeat,
		MaxSilence: maxSilence,
		Proc:       procRoot,
		Cgroups:    cgroupRoot,
		Build:      o.Build,
		Log:        o.Log,
	})
	if err != nil {
		return err
	}
	var servers sync.WaitGroup
	servers.Go(func() { serveMetrics(ctx, server, o) })
	servers.Go(func() { l.serveControl(ctx, o) })
	servers.Go(func() { l.auditor.run(ctx, o.Log, openWatcher) })
	servers.Go(func() { l.tuner.Run(ctx) })
	if l.cluster != nil {
		servers.Go(func() { l.cluster.Run(ctx) })
	}
	l.serve(ctx, o)
	servers.Wait()
	return nil
}

// serveMetrics keeps trying: a port that somebody else has must not keep
// containers from their CPUs.
func serveMetrics(ctx context.Context, server *telemetry.Server, o Options) {
	keepTrying(ctx, func() error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Config.ListenAddress)
		if err != nil {
			return fmt.Errorf("listen for metrics (listenAddress): %w", err)
		}
		return server.Serve(ctx, listener)
	}, func(err error) {
		o.Log.Error("metrics are not served", "error", err)
	})
}

// serve runs the owner with its sources and workers until ctx ends.
func (l *loop) serve(ctx context.Context, o Options) {
	l.crew = newCrew(ctx, l.box.post)
	var sources sync.WaitGroup
	sources.Go(func() { l.watchRuntime(ctx) })
	sources.Go(func() { l.watchConfig(ctx, o) })
	sources.Go(func() { l.watchHangup(ctx, o.Hangup) })
	sources.Go(func() { l.watchUnits(ctx) })
	sources.Go(func() { l.followUnits(ctx) })
	sources.Go(func() { l.watchNRI(ctx) })
	sources.Go(func() { l.watchTree(ctx) })
	sources.Go(func() { l.watchCPUs(ctx) })
	sources.Go(func() { l.watchNamespaces(ctx) })
	l.askFormula()
	l.run(ctx)
	l.notify.stopping()
	sources.Wait()
	l.wait()
}

func newLoop(h host, o Options) (*loop, error) {
	notify, err := newNotifier(o.Log)
	if err != nil {
		return nil, fmt.Errorf("read watchdog settings: %w", err)
	}
	bootID, err := readBootID()
	if err != nil {
		return nil, err
	}
	j, note := loadJournal(h, bootID, time.Now())
	if note != nil {
		o.Log.Error("journal", "error", note)
	}
	ledger := newLedger(j)
	reader := h.cgroups.Reader()
	l := &loop{
		host:      h,
		log:       o.Log,
		box:       newMailbox(),
		load:      o.Reload,
		counted:   o.Topology,
		snapshot:  new(atomic.Pointer[telemetry.View]),
		notify:    notify,
		model:     newModel(h.driver),
		tree:      newTree(reader.Read),
		bench:     newBench(),
		ledger:    ledger,
		formula:   o.Config.WeightFormula,
		status:    newStatus(),
		hints:     newHints(ledger.unhinted),
		refusals:  newRefusals(),
		promises:  newPromises(),
		resizing:  make(map[string]*resizing),
		exposures: newExposures(),
		isolation: newIsolation(h.cgroups),
		quiet:     quiet{resting: ledger.resting},
		watch:     newTreeWatch(),
		drifts:    newDrifts(),
		strangers: make(strangers),
		departed:  make(map[cgroup.Path]bool),
		threads:   newThreads(),
		auditor:   newAuditor(),
		chronicle: newChronicle(),
		thrift:    newThrift(),

		plannedOnce: make(chan struct{}),

		timers: newTimers(),
	}
	if !h.observes { // then threads, too, stay where they are
		l.tree.gather = func(p cgroup.Path) error { return l.gathered(p, reader.Gather) }
	}
	l.tree.check, l.tree.rest = reader.Check, reader.Rest
	l.notify.alive()
	unfit, err := l.settings.begin(o.Config, o.Topology)
	if err != nil {
		return nil, err
	}
	if unfit != nil && !j.Accepted.elsewhere(l.settings.now) {
		o.Log.Error("configuration does not fit this machine, and is not known to have fitted another; what of it can be had is in force", "error", unfit)
	}
	if h.boot.err != nil {
		o.Log.Warn("what the kernel does on exclusive CPUs is not known, or not all of it", "error", h.boot.err)
	}
	l.inForce(settings{})
	return l, nil
}

// journalName is the journal's place in the state directory.
func journalName(c *config.Config) string { return filepath.Join(c.StateDir, "journal.json") }

func readBootID() (string, error) {
	b, err := os.ReadFile(bootIDFile)
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// eventSource is the part of the CRI client that watches.
type eventSource interface {
	Watch(ctx context.Context, h cri.Handler) error
}

func (l *loop) watchRuntime(ctx context.Context) {
	source, ok := l.runtime.(eventSource)
	if !ok {
		return
	}
	_ = source.Watch(ctx, cri.Handler{ // ends with ctx, and only then
		Event:  func(e cri.Event) { l.box.post(runtimeEvent{e}) },
		Stream: func(s cri.StreamState, err error) { l.box.post(streamChanged{s, err}) },
	})
}

// watchConfig reads the configuration again when it may have changed.
func (l *loop) watchConfig(ctx context.Context, o Options) {
	if o.ConfigFile == "" {
		return
	}
	keepTrying(ctx, func() error { return config.Watch(ctx, o.ConfigFile, l.reload) }, func(err error) {
		l.log.Error("watch configuration", "error", err)
	})
}

// watchHangup does the same when somebody asks for it.
func (l *loop) watchHangup(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			l.reload()
		}
	}
}

// reload is called from several goroutines; what is read last is posted last.
func (l *loop) reload() {
	l.loading.Lock()
	defer l.loading.Unlock()
	c, err := l.load()
	l.box.post(configLoaded{c, err})
}

// reloadSource is the part of the systemd client that watches.
type reloadSource interface {
	WatchReload(ctx context.Context, wake func()) error
}

func (l *loop) watchUnits(ctx context.Context) {
	source, ok := l.units.(reloadSource)
	if !ok {
		return
	}
	wake := func() { l.box.post(reexecuted{}) }
	keepTrying(ctx, func() error { return source.WatchReload(ctx, wake) }, func(err error) { l.box.post(reloadsLost{err}) })
}

// keepTrying runs watch until ctx ends, with growing pauses after errors.
func keepTrying(ctx context.Context, watch func() error, report func(error)) {
	pause := backoff.NewExponentialBackOff()
	for {
		started := time.Now()
		err := watch()
		if ctx.Err() != nil {
			return
		}
		report(err)
		if time.Since(started) > lastPause {
			pause.Reset()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}
