package daemon

import (
	"log/slog"
	"time"

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
// disk, if they are not in memory. Then they go ahead, because a stuck disk must not keep
// containers on the wrong CPUs. The status reports that restore may be incomplete.
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
	last      planning.Pass

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

// ownResult is an event that reports on the daemon's own work, from which nothing new
// about the kubelet's CPUs can follow.
type ownResult interface {
	event
	ownResult()
}
