package daemon

import (
	"context"
	"runtime"
	"slices"
	"time"

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
	full         bool          // a full pass is due at once
	soon         bool          // a delayed full pass is due
	files        []cgroup.Path // cgroups to repair, each once
	changed      bool          // since the last plan
	earliestFull time.Time     // the earliest delayed full pass
}

// add schedules the pass for an event with scope c.
func (s *schedule) add(c scope) {
	s.soon = s.soon || c != scopeNone
	s.changed = s.changed || c > scopeAnswer
	s.full = s.full || c == scopeAll
}

// addRepair schedules the repair of a placed cgroup to which another process has written.
func (s *schedule) addRepair(p cgroup.Path) {
	s.add(scopeOne)
	if !slices.Contains(s.files, p) {
		s.files = append(s.files, p)
	}
}

func (s *schedule) isDue() bool { return s.soon || s.full }

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
		s.delayed.set(s.earliestFull)
	}
	return true
}

// scopeOf returns the scope of the event that is applied next.
func (l *Loop) scopeOf(e event) scope {
	if s, ok := e.(scoped); ok && !l.hasWaiting() {
		return s.scope(l)
	}
	return scopeAll
}

// hasWaiting reports whether a request or a deferred write may depend on the next event.
func (l *Loop) hasWaiting() bool {
	return !l.publisher.IsReady() || !l.journal.Safe() || filesWait(l.status.deferred) || !l.requests.IsEmpty() || !l.moves.IsEmpty()
}

// runPasses makes the passes that are due.
func (l *Loop) runPasses() {
	began := l.now()
	l.releaseReplies()
	if !l.status.listings.HasListed() || !l.planner.Formula.IsAnswered() || l.CPUManager != nil && !l.planner.Kubelet.IsKnown() {
		l.schedule.done(began, began)
		if !l.status.planned {
			l.answerEarly()
		}
		l.publish()
		l.moves.Answer(l.status.situation(l.planner.Assignments(), l.now()))
		return
	}
	if !l.schedule.full && l.partialPass(began) && l.schedule.canWait(began) {
		return
	}
	l.pass()
	for l.answerHooks(l.now()) || l.retryMoves() {
		l.pass()
	}
	runtime.Gosched() // the goroutines with an answer continue first
	l.notices.Watch(l.status.targets)
	l.save(l.now()) // the originals that answers have added
	l.publish()
	l.armRetry(l.status.began)
	l.moves.Answer(l.status.situation(l.planner.Assignments(), l.now()))
	l.schedule.done(began, l.now())
	if free := l.memory.Due(l.now()); free != nil {
		l.workers.Queries.Submit("memory", func(context.Context) event { free(); return nil })
	}
}
