package daemon

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// pollInterval is how often the runtime is asked when it has no event stream.
const pollInterval = time.Second

// relistDelay is how soon a listing that failed is tried again.
const relistDelay = 5 * time.Second

// maxIncompleteListings is how often the first listing is asked for again when parts of
// it are missing. Then the daemon begins without them: one object that can never
// be read must not keep the node from its pools.
const maxIncompleteListings = 6

// journalTimeout is how long first writes wait for their originals to be on
// disk. A stuck disk must not keep containers on the wrong CPUs: after it
// the writes go ahead, and the state says that undo is at risk.
const journalTimeout = 500 * time.Millisecond

// Loop owns all state. Only run's goroutine touches it; everybody else posts
// events and reads snapshots.
type Loop struct {
	hostenv.Host
	log         *slog.Logger
	now         func() time.Time // the clock
	box         *actor.Mailbox[event]
	workers     actor.WorkerSets[event]
	load        func() (*config.Config, error) // reads the configuration again
	loading     sync.Mutex                     // held while load runs and its result is posted
	readingCPUs sync.Mutex                     // guards counted, and is held while CPUs are read and posted
	lastRead    *topology.Topology             // the CPUs as they were last read
	snapshot    *atomic.Pointer[telemetry.View]
	notify      *hostenv.Notifier
	cluster     *nodestatus.Runner // nil where the node is in no cluster

	permission permission

	settings    desired.Settings
	inventory   *inventory.Inventory
	planner     pools.Planner
	cache       *kernelstate.Cache
	backoffs    *retry.Backoffs
	journal     *undo.Journal
	assignments []pools.Assignment
	formula     desired.Formula
	status      status
	timers      timers

	hints        *numahints.Hints
	refusalLog   *refusalLog
	kubelet      desired.StaticKubelet
	applications applications
	watched      watchedUnits
	moving       []moveRequest // begun, and not answered
	waiting      []moveRequest // not begun

	creating       []*createRequest // not answered; one at a time, but for those that the runtime has given up
	starting       []*startRequest  // likewise
	pendingUpdates pendingUpdates
	resizing       map[string]*resizing // by container
	plannedOnce    chan struct{}        // closed after the first pass
	watch          treeWatch
	drifts         *driftTracker
	unidentified   unidentified
	departed       map[cgroup.Path]bool // cgroups that have been seen go
	others         desired.OtherManagers
	exposureMeter  exposureMeter
	isolation      isolation
	schedule       schedule
	quiet          *quiet.Quiet
	auditor        auditor
	tuner          *tune.Tuner // nil where the host's settings are left alone
	tuning         tuning
	historyLog     view.HistoryLog
	memoryRelease  memoryRelease
	latest         atomic.Pointer[view.Snapshot]
}

// resync has everything listed, and all cgroups looked at. The pass that the list brings looks
// at them; a runtime that takes its time does not keep it waiting.
func (l *Loop) resync(now time.Time) {
	// A runtime without events is listed much more often than that.
	if now.Sub(l.status.lastRecheck) >= l.settings.Config.ResyncPeriod {
		l.status.lastRecheck = now
		l.status.recheckPending = true
		l.timers.recheck.set(l.now().Add(fullPassDelay))
		l.rereadCPUs()
	}
	l.timers.resync.set(l.now().Add(l.resyncPeriod())) // a list that never comes must not be the last
	l.list()
}

// recheckDue has all cgroups looked at in the whole pass that is made now, if the resync asks for
// it. Not before: what others write meanwhile would not be looked at at once.
func (l *Loop) recheckDue() {
	if l.status.recheckPending && l.schedule.full {
		l.status.recheckPending = false
		l.memoryRelease.scanned = true
		l.timers.recheck.clear()
		l.cache.Recheck(l.watch.told, l.settings.Config.ResyncPeriod)
	}
}

// list asks the runtime for everything, and systemd for the configured units.
func (l *Loop) list() {
	if l.status.listing {
		return // the answer that is under way starts the next period
	}
	l.status.listing = true
	q := l.inventory.Query(l.settings.UnitNames(), !l.status.listed)
	l.workers.Queries.Submit("list", func(ctx context.Context) event {
		return listed{inventory.List(ctx, &l.Host, q)}
	})
}

func (listed) scope(*Loop) scope { return scopeAll }

func (e listed) apply(l *Loop) {
	l.status.listing = false
	l.hints.AskAgain()
	l.timers.resync.set(l.now().Add(l.resyncPeriod()))
	if e.Err != nil {
		if old := l.status.runtimeErr; old == nil || old.Error() != e.Err.Error() {
			l.log.Warn("list pods and containers", "error", e.Err)
		}
		l.status.runtimeErr = e.Err
		l.timers.resync.set(l.now().Add(min(relistDelay, l.resyncPeriod())))
		return
	}
	if l.status.runtimeErr != nil {
		l.log.Info("the container runtime lists pods and containers again")
	}
	l.status.runtimeErr = nil
	clear(l.status.removed)
	clear(l.status.unitAsked)
	clear(l.status.reverting)
	l.others.Learn(e.Crio, l.inventory)
	l.inventory.Merge(e.Listing)
	for _, u := range e.Units {
		l.onUnit(u)
	}
	patience := l.relistSoon(len(e.Failed) > 0)
	if !l.status.listed {
		if patience {
			// What could not be read keeps what it has. But what is free, and where
			// others belong, is better decided when all is known.
			l.log.Warn("first listing is incomplete; asking again before anything is written", "error", errors.Join(e.Failed...))
			return
		}
		l.status.listed = true
		if !l.settings.Pools.Kubelet { // then who came with CPUs had them from the kubelet
			l.inventory.Recall(l.journal.Others())
		}
		l.assignments = recovery.Assignments(l.inventory, l.Cgroups.Read, l.journal.Assignments(), &l.settings)
		now := l.now()
		l.inventory.BeginWatch(now)
		l.memoryRelease.start(now)
	}
	l.prune()
}

// relistSoon brings the next listing forward while some objects cannot be read, less
// and less often: they keep what they have, and get nothing new. It says whether it
// is early enough to wait for them.
func (l *Loop) relistSoon(incomplete bool) (early bool) {
	if !incomplete {
		l.status.incomplete = 0
		return false
	}
	pause := relistDelay
	for range l.status.incomplete - maxIncompleteListings {
		pause = min(2*pause, l.resyncPeriod())
	}
	l.timers.resync.set(l.now().Add(min(pause, l.resyncPeriod())))
	l.status.incomplete++
	return l.status.incomplete <= maxIncompleteListings
}

func (l *Loop) resyncPeriod() time.Duration {
	if l.status.stream == cri.Unsupported {
		return min(pollInterval, l.settings.Config.ResyncPeriod)
	}
	return l.settings.Config.ResyncPeriod
}

// useSettings follows a change of the settings, and tells what of them is not as it was
// told before.
func (l *Loop) useSettings(told desired.Settings) {
	if !reflect.DeepEqual(l.settings.Pools, told.Pools) {
		l.log.Info("configuration in force", "pools", l.settings.Pools)
	}
	for _, what := range l.settings.Adapted {
		if !slices.Contains(told.Adapted, what) {
			l.log.Warn("configuration adapted to this machine", "adaption", what)
		}
	}
	l.journal.Accept(l.settings.Fits)
	l.takeUnits()
}

func (configLoaded) scope(*Loop) scope { return scopeAll }

func (e configLoaded) apply(l *Loop) {
	before := l.settings.Config
	if e.err == nil {
		e.err = l.settings.Change(e.config, l.settings.Topology, l.journal.Accepted())
	}
	l.status.configErr = e.err
	if e.err != nil {
		l.log.Error("configuration refused; the one in force stays", "error", e.err)
		l.historyLog.Add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.useSettings(desired.Settings{}) // somebody waits for an answer to his change
	l.historyLog.Add(history.Event{Kind: history.Config, Cause: "read again"})
	if keys := desired.Fixed(before, e.config); len(keys) > 0 {
		l.log.Warn("restart the daemon for these keys to take effect", "keys", keys)
	}
	if l.formula.Configure(e.config.WeightFormula) {
		l.askFormula()
	}
	l.timers.resync.set(l.now().Add(l.resyncPeriod()))
}
