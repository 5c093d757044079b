package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/control"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// moveTimeout is the maximum time until a move is verified. The runtime's update takes most of the time.
const moveTimeout = time.Minute

// moveRequest asks the event loop to move an owner to other CPUs. Only operators on the
// control socket post it.
type moveRequest struct {
	control.Move
	canceled <-chan struct{}   // closed when the operator no longer waits
	answer   chan<- moveAnswer // buffered
	retried  bool              // the move was blocked, and is tried once more
}

// moves holds the moves that are not answered.
type moves struct {
	open    []moveRequest // part of the desired state
	blocked []moveRequest // blocked, and tried once more
}

// moveAnswer is the result of a moveRequest.
type moveAnswer struct {
	outcome control.Outcome
	err     error
}

func (m *moveRequest) key() pools.Key {
	return pools.Key{PodUID: m.PodUID, Container: m.Container}
}

// attrs returns the attributes of a move for the log.
func (m *moveRequest) attrs() []any {
	return []any{"pod_uid", m.PodUID, "container", m.Container, "from", m.From, "to", m.To}
}

// serveControl answers operators on the control socket until ctx ends.
func (l *Loop) serveControl(ctx context.Context, o Options) {
	server := control.New(l.requestMove, moveTimeout, newAnswers(l.publisher, l.Cgroups, o), o.Log)
	actor.KeepTrying(ctx, func() error {
		return server.Serve(ctx, control.Socket(o.Config.RunDir))
	}, func(err error) {
		o.Log.Error("the control socket is not served", "error", err)
	})
}

// requestMove posts a move to the event loop and returns its outcome. Other goroutines call it.
func (l *Loop) requestMove(ctx context.Context, m control.Move) (control.Outcome, error) {
	answer := make(chan moveAnswer, 1)
	l.box.Post(moveRequest{Move: m, canceled: ctx.Done(), answer: answer})
	select {
	case a := <-answer:
		return a.outcome, a.err
	case <-ctx.Done():
		return control.Unverified, errors.New("not verified in time; the daemon's log contains the reason, and cpupoold plan shows where the owner is")
	}
}

// apply makes a move part of the desired state. The next pass writes it as it writes any
// difference, and answerMoves answers it.
func (m moveRequest) apply(l *Loop) {
	select {
	case <-m.canceled:
		return // ask has returned Unverified
	default:
	}
	assignments, err := l.assignmentsAfter(&m, l.now())
	if errors.Is(err, errBeingWritten) && !m.retried {
		m.retried = true // once more after the pass: the write may be the daemon's own
		l.moves.blocked = append(l.moves.blocked, m)
		return
	}
	if err != nil {
		l.log.Warn("move refused", append(m.attrs(), "error", err)...)
		l.noteMove(&m, err)
		m.answer <- moveAnswer{control.Refused, err}
		return
	}
	l.log.Info("move", m.attrs()...)
	l.noteMove(&m, nil)
	l.assignments = assignments
	l.moves.open = append(l.moves.open, m)
}

// retryMoves applies the blocked moves once more. It reports whether one is part of the desired
// state now.
func (l *Loop) retryMoves() bool {
	again, before := l.moves.blocked, len(l.moves.open)
	l.moves.blocked = nil
	for _, m := range again {
		m.apply(l)
	}
	return len(l.moves.open) > before
}

// assignmentsAfter returns the assignments after a move, or the reason against it. It repeats all checks,
// because containers may have changed since the operator planned the move.
func (l *Loop) assignmentsAfter(m *moveRequest, now time.Time) ([]pools.Assignment, error) {
	if l.Observes {
		return nil, hostenv.ErrObserving
	}
	if !l.status.planned {
		return nil, errors.New("the daemon has not finished its first pass; try again")
	}
	l.assignments = l.units.Settle(l.assignments, now) // the configuration may have changed since the last pass
	s := l.input(now)
	plan := s.Decide().Plan
	if err := defrag.Check(s.Fragments(plan), m.key(), m.From, m.To); err != nil {
		return nil, err
	}
	if settled, err := l.isSettled(m.key(), now); !settled {
		return nil, fmt.Errorf("is not settled on the CPUs that it has: %w", err)
	}
	next := slices.Clone(plan.Assignments)
	for i := range next {
		if next[i].Key == m.key() {
			next[i].CPUs = m.To
		}
	}
	s.Previous = next
	after := s.Decide()
	for _, a := range next {
		if !a.CPUs.IsSubsetOf(desired.Assigned(after.Plan.Assignments, a.Key)) {
			return nil, fmt.Errorf("%s/%s would lose CPUs by it", a.Key.PodUID, a.Key.Container)
		}
	}
	// Two owners that exchange CPUs need a free CPU for the moment between.
	_, deferred := l.diff(after.Targets, l.diffOptions(after.Plan), now)
	for _, t := range after.Targets {
		if err := deferredError(t, deferred); err != nil && l.ownerOf(t) == m.key() {
			return nil, fmt.Errorf("cannot be carried out: %w", err)
		}
	}
	return l.units.Assign(next), nil
}

// answerMoves answers the moves that are complete or impossible after a pass.
func (l *Loop) answerMoves() {
	now := l.now()
	l.moves.open = slices.DeleteFunc(l.moves.open, func(m moveRequest) bool {
		if !m.To.IsSubsetOf(desired.Assigned(l.assignments, m.key())) {
			m.answer <- moveAnswer{control.Unverified, errors.New("the owner has ended during the move, or the pools have changed")}
			return true
		}
		settled, err := l.isSettled(m.key(), now)
		if errors.Is(err, errNoCgroup) {
			m.answer <- moveAnswer{control.Unverified, errors.New("the owner has ended during the move")}
			return true
		}
		if !settled {
			return false
		}
		l.log.Info("moved", m.attrs()...)
		m.answer <- moveAnswer{outcome: control.Done}
		return true
	})
}

// isSettled reports whether an owner has its planned CPUs in the kernel and in the records of
// runtime and systemd, without a write in progress. If not, the error describes the cause.
func (l *Loop) isSettled(key pools.Key, now time.Time) (bool, error) {
	found := false
	for _, t := range l.status.targets {
		if l.ownerOf(t) != key {
			continue
		}
		found = true
		c := l.cache.Current(t.Path)
		switch {
		case l.cache.IsStale(t.Path) || l.cache.IsBusy(t.Path) || l.backoffs.Waiting(t.Path, now):
			return false, fmt.Errorf("%s %w", t.Path, errBeingWritten)
		case l.journal.Blocks():
			return false, fmt.Errorf("the journal %w", errBeingWritten)
		case t.Container != "" && c.RecordedKnown && !c.Recorded.Equal(t.CPUs):
			return false, fmt.Errorf("the runtime has recorded CPUs %s for %s, not %s", c.Recorded, t.Path, t.CPUs)
		case t.Unit != "" && !c.Unit.CPUs.Equal(t.CPUs):
			return false, fmt.Errorf("systemd has recorded CPUs %s for %s, not %s", c.Unit.CPUs, t.Unit, t.CPUs)
		}
		if err := l.unverified(t, c); err != nil {
			return false, err
		}
	}
	if !found {
		return false, errNoCgroup
	}
	return true, nil
}

var errBeingWritten = errors.New("is being written")

var errNoCgroup = errors.New("its cgroup is not known, or has gone")

// unverified returns an error if the cgroup of a target is not known to be in the desired
// state.
func (l *Loop) unverified(t cgroup.Target, c cgroup.Current) error {
	if err := errors.Join(l.backoffs.Err(t.Path), l.status.unreadable[t.Path]); err != nil {
		return err
	}
	if err := deferredError(t, l.status.deferred); err != nil {
		return err
	}
	if !c.Exists {
		if t.Unit != "" {
			return nil // a stopped unit needs only its record
		}
		return fmt.Errorf("%s does not exist", t.Path)
	}
	return cgroup.Verify(t, c.State)
}

// deferredError returns an error if a write of the target is deferred.
func deferredError(t cgroup.Target, deferred []cgroup.Deferred) error {
	for _, d := range deferred {
		if d.Path == t.Path {
			return fmt.Errorf("%s of %s waits: %s", d.Property, d.Path, d.Reason)
		}
	}
	return nil
}

// noteMove adds an operator's request and its result to the history.
func (l *Loop) noteMove(m *moveRequest, err error) {
	e := history.Event{Kind: history.Move, PodUID: m.PodUID, Container: m.Container, Before: m.From.String(), Value: m.To.String(), Cause: "asked for on the control socket"}
	if m.PodUID == "" {
		e.Unit, e.Container = e.Container, ""
	}
	for pod := range l.inventory.Pods() {
		if pod.UID == m.PodUID {
			e.Pod = pod.Name()
		}
	}
	if err != nil {
		e.Error = err.Error()
	}
	l.publisher.History().Add(e)
}
