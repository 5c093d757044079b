package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/listing"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// status holds the progress of the event loop's work, and the last decision.
type status struct {
	listings     listing.Pace
	began        time.Time // start of the last pass
	synchronized func()    // fetches the objects that NRI has listed during the first listing

	plan       pools.Plan
	input      pools.Input // of plan; immutable
	targets    []cgroup.Target
	deferred   []cgroup.Deferred
	unreadable map[cgroup.Path]error
	auxiliary  []auxiliary.Cgroup // in pods, of no container

	planned bool // a pass has been made
}

// situation returns the result of the last pass, for requested moves.
func (s *status) situation(assignments []pools.Assignment, now time.Time) moves.Situation {
	return moves.Situation{Targets: s.targets, Deferred: s.deferred, Unreadable: s.unreadable, Assignments: assignments, Now: now}
}

// targetAt returns the target of a cgroup, or nil.
func targetAt(targets []cgroup.Target, p cgroup.Path) *cgroup.Target {
	for i := range targets {
		if targets[i].Path == p {
			return &targets[i]
		}
	}
	return nil
}
