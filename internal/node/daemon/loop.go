package daemon

import (
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/notices"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/publish"
	"github.com/cpupoold/cpupoold/internal/node/refusal"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/units"
)

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

	settings  desired.Settings
	inventory *inventory.Inventory
	planner   *planning.Planner
	cache     *kernelstate.Cache
	backoffs  *retry.Backoffs
	journal   *undo.Journal
	status    status

	refusalLog *refusal.Log
	units      *units.Units
	moves      *moves.Moves

	requests   *requests.Queue
	resizes    *resize.Resizes
	notices    *notices.Notices
	drifts     *drift.Tracker
	partitions *partition.Partitions
	schedule   schedule
	publisher  *publish.Publisher
	memory     memrelease.Release
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
	l.units.Follow(l.status.listings.HasListed(), l.now())
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
	l.publisher.States.Config(e.err)
	if e.err != nil {
		l.publisher.History().Add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.useSettings(desired.Settings{}) // an administrator expects all messages after a change
	l.publisher.History().Add(history.Event{Kind: history.Config, Cause: "read again"})
	if len(restartKeys) > 0 {
		l.log.Warn("restart the daemon for these keys to take effect", "keys", restartKeys)
	}
	if l.planner.Formula.Configure(e.config.WeightFormula) {
		l.askFormula()
	}
	if l.status.listings.HasListed() { // otherwise the first listing is due before
		l.schedule.resync.set(l.now().Add(l.resyncPeriod()))
	}
}

// event is news for the loop. Every event is a hint or the result of a job: losing any
// source of events costs time and never correctness.
type event interface {
	// apply records the event in the loop's state.
	apply(l *Loop)
}

// scoped is an event that can need less than a full pass.
type scoped interface {
	// scope returns the pass that the event needs. The loop calls it before apply.
	scope(l *Loop) scope
}

// ownResult is an event that reports on the daemon's own work, from which nothing new
// about the kubelet's CPUs can follow.
type ownResult interface {
	event
	ownResult()
}

// scope is the part of the node that an event can concern.
type scope int

const (
	scopeNone   scope = iota // no pass is needed
	scopeAnswer              // no input of the plan
	scopeOne                 // at most its pod or cgroup
	scopeAll                 // any pod or cgroup
)

// oneUnless returns scopeAll if all is true, else scopeOne.
func oneUnless(all bool) scope {
	if all {
		return scopeAll
	}
	return scopeOne
}
