package daemon

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/appfiles"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/exposure"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/removal"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/sourcestate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/unidentified"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// pollInterval is the interval of listings of a runtime without an event stream.
const pollInterval = time.Second

// relistDelay is the delay after a failed listing, and after each of maxQuickListings incomplete
// listings in succession. Later delays double.
const (
	relistDelay      = 5 * time.Second
	maxQuickListings = 6
)

// firstListingTime bounds the time for incomplete listings before the first pass. Then the
// daemon starts without the details that are missing: an object that cannot be read, or a slow
// runtime, must not keep all containers from their pools.
const firstListingTime = 20 * time.Second

// journalTimeout is the maximum time that first writes wait until their originals are on
// disk. Then they go ahead, because a stuck disk must not keep containers on the wrong CPUs.
// The status reports that restore may be incomplete.
const journalTimeout = 500 * time.Millisecond

// Loop is the event loop and its state. Only the goroutine of run uses the state. Other
// goroutines post events and read snapshots.
type Loop struct {
	hostenv.Host
	log      *slog.Logger
	now      func() time.Time // the clock
	box      *actor.Mailbox[event]
	workers  actor.WorkerSets[event]
	watchers *watchers
	notify   *hostenv.Notifier

	permission permission.Permission

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

	hints      *numahints.Hints
	refusalLog *refusal.Log
	kubelet    desired.StaticKubelet
	files      *appfiles.Files
	units      *units.Units
	moves      *moves.Moves

	requests      *requests.Queue
	resizes       *resize.Resizes
	watch         *treewatch.Tree
	auxiliary     *auxiliary.Cgroups // in the slices of pods
	drifts        *drift.Tracker
	unidentified  *unidentified.Cgroups
	removed       *removal.Cgroups
	others        desired.OtherManagers
	exposureMeter *exposure.Meter
	partitions    *partition.Partitions
	schedule      schedule
	quiet         *quiet.Quiet
	states        *sourcestate.States
	publisher     *publish.Publisher
	memory        memrelease.Release
}

// resync starts a listing and schedules a scan of all cgroups. The pass after the listing makes
// the scan, or a full pass after fullPassDelay if the runtime is slow.
func (l *Loop) resync(now time.Time) {
	// Listings of a runtime without events are more frequent than scans.
	if now.Sub(l.status.lastRecheck) >= l.settings.Config.ResyncPeriod {
		l.status.lastRecheck = now
		l.status.recheckPending = true
		l.timers.recheck.set(l.now().Add(fullPassDelay))
		l.rereadCPUs()
	}
	l.timers.resync.set(l.now().Add(l.resyncPeriod())) // also if the listing never ends
	l.list()
}

// startRecheck makes the next full pass scan all cgroups, if a resync has scheduled that. It waits
// for the full pass, because partial passes must still see external writes at once.
func (l *Loop) startRecheck() {
	if l.status.recheckPending && l.schedule.full {
		l.status.recheckPending = false
		l.memory.NoteScan()
		l.timers.recheck.clear()
		l.files.Recheck()
		l.cache.Recheck(l.watch.IsWatched, l.settings.Config.ResyncPeriod)
		l.partitions.RecheckAll()
	}
}

// firstAnswer is how long the first listing waits for the runtime to connect over NRI. A
// listing that begins after the connection contains the resizes before it, of which only NRI
// has events.
const firstAnswer = time.Second

// begin starts the first listing. With early replies it comes after the answer of NRI. The daemon
// sends no early replies if the journal has no originals of this boot, or if another plugin has
// placed containers: the journal does not have their CPUs.
func (l *Loop) begin() {
	if l.NRISocket == "" || l.journal.WasBare() || len(l.journal.Others()) > 0 {
		l.list()
		return
	}
	if l.CRIO != nil { // before the first request with annotations that only it names
		crio := l.CRIO()
		l.Annotations.Learn(crio)
		l.others.Learn(crio, l.inventory)
	}
	l.watchers.openNRI()
	l.timers.resync.set(l.now().Add(firstAnswer))
}

// list fetches all pods and containers from the runtime, and the configured units from systemd.
func (l *Loop) list() {
	if l.status.listing {
		return // its result sets the next resync
	}
	l.status.listing = true
	if l.status.firstList.IsZero() {
		l.status.firstList = l.now()
	}
	q := l.inventory.Query(l.settings.UnitNames(), !l.status.listed)
	q.InPods = l.watch.State() != telemetry.SourceOK // otherwise notices report them
	l.workers.Queries.Submit("list", func(ctx context.Context) event {
		return listed{inventory.List(ctx, &l.Host, q)}
	})
}

// listed is the result of a listing.
type listed struct{ inventory.Listing }

func (e listed) apply(l *Loop) {
	l.status.listing = false
	l.hints.AskAgain()
	l.timers.resync.set(l.now().Add(l.resyncPeriod()))
	l.states.Listed(e.Err)
	if e.Err != nil {
		l.status.firstList = time.Time{}
		l.timers.resync.set(l.now().Add(min(relistDelay, l.resyncPeriod())))
		return
	}
	l.removed.Listed()
	l.units.Scopes().AskAgain()
	l.units.RevertAgain()
	l.others.Learn(e.Crio, l.inventory)
	l.inventory.Merge(e.Listing)
	for _, u := range e.Units {
		l.units.Note(u, l.now())
	}
	l.auxiliary.NoteAll(e.InPods)
	early := l.relistSoon(len(e.Failed) > 0)
	if !l.status.listed {
		if early {
			// Unread containers keep their CPUs. But free CPUs are known only with all
			// containers.
			l.log.Warn("first listing is incomplete; asking again before anything is written", "error", errors.Join(e.Failed...))
			return
		}
		l.status.listed = true
		if !l.settings.Pools.Kubelet { // a static kubelet, not a plugin, has chosen CPUs at creation
			l.inventory.Recall(l.journal.Others())
		}
		l.assignments = l.units.Assign(recovery.Assignments(l.inventory, l.cache.State, l.journal.Assignments(), &l.settings))
		now := l.now()
		l.inventory.BeginWatch(now)
		l.memory.Start(now)
	}
	l.prune()
}

// relistSoon sets an earlier resync while some objects cannot be read, with growing delays:
// these objects keep their CPUs and get no new ones. It reports whether the first pass should
// wait for them.
func (l *Loop) relistSoon(incomplete bool) (early bool) {
	if !incomplete {
		l.status.incomplete = 0
		return false
	}
	pause := min(relistDelay, l.resyncPeriod())
	for range l.status.incomplete - maxQuickListings {
		pause = min(2*pause, l.resyncPeriod())
	}
	l.status.incomplete++
	next := l.now().Add(pause)
	l.timers.resync.set(next)
	return next.Before(l.status.firstList.Add(firstListingTime))
}

func (l *Loop) resyncPeriod() time.Duration {
	if l.states.PollsRuntime() {
		return min(pollInterval, l.settings.Config.ResyncPeriod)
	}
	return l.settings.Config.ResyncPeriod
}

// useSettings applies a change of the settings and logs the differences to before.
func (l *Loop) useSettings(before desired.Settings) {
	if !reflect.DeepEqual(l.settings.Pools, before.Pools) {
		l.log.Info("configuration in force", "pools", l.settings.Pools)
	}
	for _, what := range l.settings.Adapted {
		if !slices.Contains(before.Adapted, what) {
			l.log.Warn("configuration adapted to this machine", "adaption", what)
		}
	}
	l.journal.Accept(l.settings.Fits)
	l.units.Follow(l.status.listed, l.now())
}

// configLoaded is a configuration that was read again, or the reason why it is refused.
type configLoaded struct {
	config *config.Config
	err    error
}

func (e configLoaded) apply(l *Loop) {
	var restartKeys []string
	if e.err == nil {
		restartKeys = l.settings.RestartKeys(e.config)
		e.err = l.settings.Change(e.config, l.settings.Topology, l.journal.Accepted())
	}
	l.states.Config(e.err)
	if e.err != nil {
		l.publisher.History().Add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.useSettings(desired.Settings{}) // an administrator expects all messages after a change
	l.publisher.History().Add(history.Event{Kind: history.Config, Cause: "read again"})
	if len(restartKeys) > 0 {
		l.log.Warn("restart the daemon for these keys to take effect", "keys", restartKeys)
	}
	if l.formula.Configure(e.config.WeightFormula) {
		l.askFormula()
	}
	if l.status.listed { // otherwise the first listing is due before
		l.timers.resync.set(l.now().Add(l.resyncPeriod()))
	}
}
