package daemon

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/claims"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/notices"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Options configures Run.
type Options struct {
	hostenv.Start
	// ConfigFile is watched; empty means that there is no file.
	ConfigFile string
	// Hangup wakes a reload in addition to the watch (SIGHUP).
	Hangup <-chan os.Signal
	// Environment describes the cluster of the node, if there is one.
	Environment nodestatus.Environment
	Build       telemetry.Build
	// Clock returns the time; nil means time.Now.
	Clock func() time.Time
}

// Run keeps the node in the desired state until ctx ends. It holds the node's writer lock and
// waits for the runtime. At the end it changes nothing: containers keep their CPUs while no
// daemon runs. It returns errors only of the start.
func Run(ctx context.Context, o Options) error {
	unlock, err := service.Lock(o.Config.RunDir)
	if err != nil {
		return err
	}
	defer func() { _ = unlock() }() // the kernel unlocks at exit
	h, inForce, closeHost, err := o.Wait(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it waited
		}
		return err
	}
	defer closeHost()
	o.Config = inForce
	if o.Config.Mode == config.ModeObserve {
		h = h.Observing()
	}
	return h.Serve(ctx, func(ctx context.Context) error { return runOn(ctx, h, o) })
}

func runOn(ctx context.Context, h hostenv.Host, o Options) error {
	l, err := newLoop(h, o)
	if err != nil {
		return err
	}
	cluster, err := newCluster(o)
	if err != nil {
		return err
	}
	l.publisher.Join(cluster)
	rights, err := permission.Open(o.Config, o.Environment, o.Log)
	if err != nil {
		return err
	}
	l.planner.Permit(rights)
	tuning, err := hosttuning.New(&l.settings, l.Possible, l.Observes, o.Log, func() { l.box.Post(tuned{}) })
	if err != nil {
		return err
	}
	l.publisher.Tune(tuning)
	server, err := telemetry.New(telemetry.Options{
		View:       l.publisher.Metrics,
		Heartbeat:  l.publisher.Notify.Heartbeat,
		MaxSilence: l.publisher.Notify.MaxSilence(),
		Proc:       kernelfs.ProcRoot,
		Cgroups:    kernelfs.CgroupRoot,
		Build:      o.Build,
		Log:        o.Log,
	})
	if err != nil {
		return err
	}
	var servers sync.WaitGroup
	servers.Go(func() { serveMetrics(ctx, server, o) })
	servers.Go(func() { serveControl(ctx, newControl(l, o), o) })
	servers.Go(func() { l.publisher.Run(ctx) })
	var wait func()
	l.workers, wait = actor.NewWorkerSets(ctx, l.box.Post)
	l.serve(ctx)
	wait()
	servers.Wait()
	if err := l.journal.SaveLast(&l.Host); err != nil {
		o.Log.Error("journal not written at the end", "journal", l.JournalFile, "error", err)
	}
	return nil
}

// serveMetrics serves metrics until ctx ends. It retries after errors, because a port in use
// must not keep containers from their CPUs.
func serveMetrics(ctx context.Context, server *telemetry.Server, o Options) {
	actor.KeepTrying(ctx, func() error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Config.ListenAddress)
		if err != nil {
			return fmt.Errorf("listen for metrics (listenAddress): %w", err)
		}
		return server.Serve(ctx, listener)
	}, func(err error) {
		o.Log.Error("metrics are not served", "error", err)
	})
}

// moveTimeout is the maximum time until a move is verified. The runtime's update takes most of the time.
const moveTimeout = time.Minute

// newControl returns the server of the control socket.
func newControl(l *Loop, o Options) *control.Server {
	move := moves.Request(func(m *moves.Move) { l.box.Post(moveRequest{m}) })
	claim := claims.Request(func(c *claims.Change) { l.box.Post(claimChange{c}) })
	return control.New(move, moveTimeout, claim, newAnswers(l.publisher, l.Cgroups, o), o.Log)
}

// serveControl answers operators on the control socket until ctx ends.
func serveControl(ctx context.Context, server *control.Server, o Options) {
	actor.KeepTrying(ctx, func() error {
		return server.Serve(ctx, control.Socket(o.Config.RunDir))
	}, func(err error) {
		o.Log.Error("the control socket is not served", "error", err)
	})
}

// serve runs the event loop and its watchers until ctx ends.
func (l *Loop) serve(ctx context.Context) {
	var watchers sync.WaitGroup
	scan := l.cache.Threads.Scans(l.Cgroups)
	watchers.Go(func() { l.watchers.run(ctx, l.units, &l.planner.Permission, scan) })
	l.askFormula()
	l.run(ctx)
	l.publisher.Notify.Stopping()
	watchers.Wait()
}

// newCluster returns the goroutine that shows the node to its cluster, or nil.
func newCluster(o Options) (*nodestatus.Runner, error) {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err != nil || options == nil {
		return nil, err
	}
	o.Log.Info("the node's pools are shown to its cluster", "node", options.Name, "access", options.Access.String())
	return nodestatus.New(*options), nil
}

// newAnswers returns the answers for the control socket.
func newAnswers(p *publish.Publisher, cgroups *cgroup.FS, o Options) *view.Answers {
	return view.NewAnswers(p.Latest, cgroups, o.Build, o.ConfigFile, o.Environment.NodeName)
}

func newLoop(h hostenv.Host, o Options) (*Loop, error) {
	notify, err := service.NewNotifier(o.Log)
	if err != nil {
		return nil, fmt.Errorf("read watchdog settings: %w", err)
	}
	bootID, err := kernelfs.BootID()
	if err != nil {
		return nil, err
	}
	now := o.Clock
	if now == nil {
		now = time.Now
	}
	j, note := loadJournal(h, bootID, now())
	if note != nil {
		o.Log.Error("journal", "error", note)
	}
	usable, machine := usablecpus.NewReader(h.CPUs, h.Cgroups, o.Topology, o.Log)
	journal, log := j.Journal(), o.Log
	m, cache, inPods, tree := inventory.New(h.Driver), kernelstate.New(h.Cgroups.Reader(), log), auxiliary.New(h.Driver), treewatch.New(log)
	objects := m.Objects()
	l := &Loop{
		Host:      h,
		log:       log,
		now:       now,
		box:       actor.NewMailbox[event](),
		inventory: m,
		cache:     cache,
		backoffs:  retry.New(),
		journal:   journal,
		requests:  requests.New(m, cache, journal, journalTimeout, now, log),
		resizes:   resize.New(m, log),
		memory:    memrelease.New(),
	}
	l.planner = planning.New(planning.Sources{
		Host: &l.Host, Log: log, Settings: &l.settings, Objects: objects, Cache: cache, Journal: journal, Auxiliary: inPods, AskHints: l.askHints,
	}, o.Config.WeightFormula)
	facts := &l.planner.Facts
	l.refusalLog, l.units, l.drifts = refusal.New(objects, facts.Hints, log), newUnits(l), newDrifts(l)
	l.partitions = partition.New(partition.Sources{
		Host: &l.Host, Log: log, Settings: &l.settings, Objects: objects, Others: &facts.Others, Cache: cache, Memory: h.Cgroups.PartitionMemory(),
		Backoffs: l.backoffs, Journal: journal, Quiet: facts.Quiet, Save: l.save, Count: func(w cgroup.Write, err error) { l.publisher.Count(w, err) },
	})
	l.publisher = publish.New(publish.Sources{
		Facts: facts, Host: &l.Host, Log: log, Now: now, Notify: notify, Settings: &l.settings, Objects: objects, Cache: cache, Journal: journal, Auxiliary: inPods, Backoffs: l.backoffs,
		Partitions: l.partitions, Units: l.units, Drifts: l.drifts, Refusals: l.refusalLog, Watch: tree, Requests: l.requests, OpenAudit: auditor.Open,
		OpenLive: func() (liveaudit.Program, error) { return liveaudit.Open(h.Possible) }, CgroupExists: liveaudit.Exists, Refresh: func() { l.box.Post(tuned{}) },
	})
	l.notices = notices.New(notices.Sources{
		Host: &l.Host, Log: log, Objects: objects, Cache: cache, Originals: journal.Originals, Auxiliary: inPods, Others: &facts.Others, Partitions: l.partitions,
		Drifts: l.drifts, Exposures: l.publisher.Exposures, Tree: tree,
	})
	l.publisher.States.Withhold(machine.Withheld)
	l.moves = moves.New(moves.Sources{
		Log: o.Log, History: l.publisher.History(), Settings: &l.settings, Objects: objects, Cache: cache, Backoffs: l.backoffs, Journal: journal,
	})
	l.watchers = newWatchers(l, o, usable)
	l.inventory.UseClock(now)
	l.publisher.Notify.Alive(l.now())
	unfit, err := l.settings.Begin(o.Config, machine.Topology, j.Accepted)
	if err != nil {
		return nil, err
	}
	if unfit != nil && !j.Accepted.OnOtherMachine(l.settings.Now) {
		o.Log.Error("configuration does not fit this machine, and is not known to have fitted another; the parts that fit are in force", "error", unfit)
	}
	if h.Boot.Err != nil {
		o.Log.Warn("kernel work on exclusive CPUs is not known, or only in part", "error", h.Boot.Err)
	}
	l.useSettings(desired.Settings{})
	return l, nil
}

// loadJournal reads the journal. In mode: observe it leaves an invalid file in place.
func loadJournal(h hostenv.Host, bootID string, now time.Time) (undo.Document, error) {
	f := undo.File{Name: h.JournalFile, RunDir: h.RunDir}
	if !h.Observes {
		return f.Load(bootID, now)
	}
	d, err := f.Find()
	return d, cmp.Or(err, d.Damage)
}
