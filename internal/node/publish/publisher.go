// Package publish turns the state of the event loop after a pass into the state that other
// goroutines, operators and the cluster see. It logs the changes since the pass before. One
// goroutine calls [Publisher.Note] and [Publisher.Publish]; any goroutine may call Metrics and
// Latest. No decision about CPUs depends on a Publisher.
package publish

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
	"github.com/cpupoold/cpupoold/internal/node/auditor"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/clusterstate"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/exposure"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/liveaudit"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/service"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Sources are the values that a [Publisher] reads.
type Sources struct {
	*planning.Facts
	Host       *hostenv.Host
	Log        *slog.Logger
	Now        func() time.Time
	Notify     *service.Notifier
	Settings   *desired.Settings
	Objects    *inventory.Objects
	Cache      *kernelstate.Cache
	Journal    *undo.Journal
	Auxiliary  *auxiliary.Cgroups
	Backoffs   *retry.Backoffs
	Partitions *partition.Partitions
	Units      *units.Units
	Drifts     *drift.Tracker
	Refusals   *refusal.Log
	Watch      *treewatch.Tree
	Requests   *requests.Queue
	OpenAudit  func() (auditor.Watcher, error)
	// OpenLive loads the program of the live audit, and CgroupExists reports whether a cgroup exists
	// now. Refresh makes the event loop publish soon; any goroutine may call it.
	OpenLive     func() (liveaudit.Program, error)
	CgroupExists func(cgroup string) bool
	Refresh      func()
}

// Publisher holds the results of the passes, and the published state.
type Publisher struct {
	Sources
	States    *States
	Exposures *exposure.Meter
	Files     *appfiles.Files
	Live      *liveaudit.Audit

	history *view.HistoryLog
	auditor *auditor.Auditor
	tuning  *hosttuning.Tuning // nil if the daemon changes no host settings
	cluster *nodestatus.Runner // nil if the node is in no cluster

	metrics atomic.Pointer[telemetry.View]
	latest  atomic.Pointer[view.Snapshot]

	counts      view.Counts
	capacity    view.Capacity
	unwritten   map[cgroup.Write]bool // omitted writes (mode: observe)
	faults      map[cgroup.Path]error // cgroups that the last pass could not correct
	lastSuccess time.Time
	ready       bool
	reported    map[problemKey]bool    // logged problems
	problems    []pools.Problem        // of the last pass
	noise       map[string]string      // of the last pass, by container
	paths       map[string]cgroup.Path // of the last pass: cgroups that exist, by container or unit
	bootArgs    []string               // missing kernel parameters in the last pass
}

// New returns a Publisher that has published nothing.
func New(s Sources) *Publisher {
	p := &Publisher{
		Sources: s, States: &States{log: s.Log}, Exposures: exposure.New(s.Objects, s.Cache, s.Host.Cgroups.Usage, s.Host.Units != nil),
		history: view.NewHistoryLog(s.Now), auditor: auditor.New(),
	}
	p.Live = liveaudit.New(s.Log, func(at string) bool { return p.CgroupExists(at) }, s.Now, s.Refresh)
	var write func([]appcpus.Entry, bool) appcpus.Result
	if s.Host.RunDir != "" && !s.Host.Observes {
		write = appcpus.NewWriter(s.Host.RunDir).Write
	}
	p.Files = appfiles.New(appfiles.Sources{Settings: s.Settings, Objects: s.Objects, Cache: s.Cache, Log: s.Log, CRIO: s.Host.CRIO != nil}, write)
	return p
}

// Join makes p show the node to a cluster. Call it before Run.
func (p *Publisher) Join(cluster *nodestatus.Runner) { p.cluster = cluster }

// Tune makes p pass each plan to t. Call it before Run.
func (p *Publisher) Tune(t *hosttuning.Tuning) { p.tuning = t }

// Run audits the host, changes its settings and shows the node to its cluster until ctx ends.
func (p *Publisher) Run(ctx context.Context) {
	var jobs sync.WaitGroup
	jobs.Go(func() { p.auditor.Run(ctx, p.Log, p.OpenAudit) })
	jobs.Go(func() { p.Live.Run(ctx, p.OpenLive) })
	jobs.Go(func() { p.tuning.Run(ctx) })
	if p.cluster != nil {
		jobs.Go(func() { p.cluster.Run(ctx) })
	}
	jobs.Wait()
}

// History returns the history of the node.
func (p *Publisher) History() *view.HistoryLog { return p.history }

// Latest returns the state that operators see, with the results of the live audit. It is nil before
// Publish.
func (p *Publisher) Latest() *view.Snapshot {
	in := p.latest.Load()
	if live := p.Live.Result(); in != nil && live != nil {
		all := *in
		all.Live = live
		return &all
	}
	return in
}

// Metrics returns the state that metrics show, with the present state of the connection to the
// cluster and the results of the audits. It is nil before Publish.
func (p *Publisher) Metrics() *telemetry.View {
	v := p.metrics.Load()
	if v != nil && p.cluster != nil {
		v = clusterstate.WithStats(v, p.cluster.Stats())
	}
	found, live := p.auditor.Result(), p.Live.Result()
	if v == nil || found == nil && live == nil {
		return v
	}
	all := *v
	all.Audit, all.LiveAudit = found, live
	return &all
}

// Note logs the faults and the problems that a pass has left, if they have changed.
func (p *Publisher) Note(pass *planning.Pass) {
	p.paths = make(map[string]cgroup.Path, len(pass.Targets))
	for i := range pass.Targets {
		t := &pass.Targets[i]
		if id := t.Container + t.Unit; id != "" && p.Cache.Current(t.Path).Exists {
			p.paths[id] = t.Path
		}
	}
	p.noteFaults(pass)
	p.report(pass)
	p.reportNoise(pass)
}

// Publish replaces the state that other goroutines and the cluster see.
func (p *Publisher) Publish(pass *planning.Pass, now time.Time) {
	if pass.Planned {
		p.noteReady(pass, now)
		p.showAudits(pass)
		p.tuning.Set(p.Settings, pass.Owners, p.Objects, &p.Others, p.Host.Possible)
	}
	v := p.view(pass)
	p.history.NoteSources(v.Sources)
	p.metrics.Store(v)
	p.latest.Store(&view.Snapshot{
		Decision: pass.Decision, View: v, History: p.history.Snapshot(), Settings: *p.Settings, Planned: pass.Planned,
		Deferred: pass.Deferred, Faults: p.faults, Problems: p.problems, Began: pass.Began,
		Config: p.States.ConfigErr(), Observes: p.Host.Observes, Owed: len(p.unwritten), System: p.Others.SystemPartition(p.Objects),
	})
	if p.cluster != nil && pass.Planned {
		p.cluster.Show(p.ClusterState(pass))
	}
}

// noteReady reports once that the node has its desired state. It waits for the files for
// applications, at most appfiles.Timeout, and not after a failed write: a unit that waits for the
// daemon reads its CPUs when it starts.
func (p *Publisher) noteReady(pass *planning.Pass, now time.Time) {
	if p.ready || p.IsWorking(pass.Began) || now.Before(p.Files.Due()) {
		return
	}
	p.ready = true
	p.history.Add(history.Event{Kind: history.Ready})
	pods, containers := p.Objects.Len()
	p.Log.Info("ready", "pods", pods, "containers", containers)
	p.Notify.Ready()
}

// IsReady reports whether the node has had its desired state.
func (p *Publisher) IsReady() bool { return p.ready }

// node returns the state from which cluster and metrics derive their values.
func (p *Publisher) node(pass *planning.Pass) view.Node {
	return view.Node{Settings: p.Settings, Plan: &pass.Plan, Planned: pass.Planned, Objects: p.Objects, Lost: p.Partitions.Lost()}
}

// ClusterState returns the state that the cluster sees after a pass.
func (p *Publisher) ClusterState(pass *planning.Pass) *nodestatus.State {
	f := clusterstate.Facts{
		Node: p.node(pass), Ready: p.ready, Observes: p.Host.Observes, Problems: p.Problems(pass), Faults: p.faults,
		Runtime: p.States.RuntimeErr(), Config: p.States.ConfigErr(), Unwritten: len(p.unwritten),
	}
	return f.State()
}
