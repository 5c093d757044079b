package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/listing"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Which pass is due, and when
//
// A full pass compares all targets with all cgroups. The desired state is a function of the
// whole inventory, so the next full pass corrects the effect of a wrong or lost event. Its
// duration grows with the number of containers, and most events concern one pod or cgroup, or
// no cgroup. So each event has a scope:
//
//   - If a request waits for an answer, or another process has changed a cgroup, a partial
//     pass (partialpass.go) follows at once, and a full pass later.
//   - If no request waits, only the full pass follows.
//
// Without a waiting request, the delay since the previous full pass is fullPassRatio times the
// duration of that pass, and at most fullPassDelay. Thus these passes use at most a hundredth of
// a CPU if they take at most 2.5 ms.

// fullPassDelay is the maximum delay of a full pass.
const fullPassDelay = 250 * time.Millisecond

// fullPassRatio is the delay of a full pass without a waiting request, as a multiple of the
// duration of the previous full pass.
const fullPassRatio = 100

// schedule holds the work that is due since the last full pass, and the deadlines of later work.
type schedule struct {
	timers
	full     bool          // A full pass is due at once.
	answered bool          // A full pass is due after the reply to a new owner.
	soon     bool          // a delayed full pass is due
	files    []cgroup.Path // cgroups to repair, each once
	// changed reports whether an event since the last plan can change owners. sandbox is the only sandbox
	// that other events since then concern, or "".
	changed      bool
	sandbox      string
	earliestFull time.Time // the earliest delayed full pass
}

// add schedules the pass for an event with scope c.
func (s *schedule) add(c scope) {
	s.soon = s.soon || c != scopeNone
	s.changed = s.changed || c > scopeAnswer
	s.full = s.full || c == scopeAll || s.answered && c != scopeNone
}

// addSandbox schedules the pass for an event with scopeOne that concerns only a sandbox.
func (s *schedule) addSandbox(sandbox string) {
	changed := s.changed || s.sandbox != "" && s.sandbox != sandbox
	s.add(scopeOne)
	s.changed, s.sandbox = changed, sandbox
}

// concernsOnly reports whether all events since the last plan that can change owners concern a sandbox.
func (s *schedule) concernsOnly(sandbox string) bool {
	return !s.changed && (s.sandbox == "" || s.sandbox == sandbox)
}

// addRepair schedules the repair of a placed cgroup to which another process has written. Repairs
// precede answers, and change no owner.
func (s *schedule) addRepair(p cgroup.Path) {
	s.add(scopeAnswer)
	if !slices.Contains(s.files, p) {
		s.files = append(s.files, p)
	}
}

func (s *schedule) isDue() bool { return s.soon || s.full || s.answered }

// done clears the schedule after a full pass.
func (s *schedule) done(began, now time.Time) {
	*s = schedule{timers: s.timers, earliestFull: now.Add(min(fullPassRatio*now.Sub(began), fullPassDelay))}
}

// canWait reports whether a full pass is not due yet.
func (s *schedule) canWait(now time.Time) bool {
	if s.soon && !now.Before(s.earliestFull) {
		return false
	}
	if s.soon {
		s.delayed.Set(s.earliestFull)
	}
	return true
}

// timers holds later work, which a full pass does not end. A zero deadline is not set.
type timers struct {
	listings  listing.Pace
	afterPass func() // fetches the objects that NRI has listed during the first listing, after the first pass

	resync    actor.Deadline // the next listing
	recheck   actor.Deadline // the latest scan after a resync
	retry     actor.Deadline // the next retry or answer
	journal   actor.Deadline // the end of the wait for the disk
	heartbeat actor.Deadline // the next heartbeat.
	delayed   actor.Deadline // the next delayed full pass
	notices   actor.Deadline // changes that the watcher holds back
}

// next returns the earliest deadline, or the zero time if none is set.
func (t *timers) next() time.Time {
	var next actor.Deadline
	for _, d := range [...]actor.Deadline{t.resync, t.recheck, t.retry, t.journal, t.heartbeat, t.delayed, t.notices} {
		next.SetEarlier(d.Due)
	}
	return next.Due
}
