package daemon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// moveRequest is a request of an operator.
type moveRequest struct{ *moves.Move }

// apply makes a move part of the desired state. The next pass writes it as it writes any
// difference, and then Moves answers it.
func (m moveRequest) apply(l *Loop) {
	if !m.IsCanceled() {
		l.startMove(m.Move)
	}
}

// startMove makes a move part of the desired state, if it is possible. It reports whether it is.
func (l *Loop) startMove(m *moves.Move) bool {
	assignments, err := l.assignmentsAfter(m, l.now())
	if !l.moves.Take(m, err) {
		return false
	}
	l.planner.Assign(assignments)
	return true
}

// retryMoves tries the blocked moves once more. It reports whether one is part of the desired
// state now.
func (l *Loop) retryMoves() (again bool) {
	for _, m := range l.moves.TakeBlocked() {
		again = !m.IsCanceled() && l.startMove(m) || again
	}
	return again
}

// assignmentsAfter returns the assignments after a move, or the reason against it. It repeats all checks,
// because containers may have changed since the operator planned the move.
func (l *Loop) assignmentsAfter(m *moves.Move, now time.Time) ([]pools.Assignment, error) {
	if err := l.Writable(); err != nil {
		return nil, err
	}
	if !l.last.Planned {
		return nil, errors.New("the daemon has not finished its first pass; try again")
	}
	l.planner.Assign(l.units.Settle(l.planner.Assignments(), now)) // the configuration may have changed since the last pass
	moment := l.moment(now)
	s := l.planner.Input(moment)
	plan := s.Decide().Plan
	if err := m.Check(&plan, s.Fragments(plan)); err != nil {
		return nil, err
	}
	if err := l.moves.Settled(m.Key(), &l.last, now); err != nil {
		return nil, fmt.Errorf("is not settled on the CPUs that it has: %w", err)
	}
	next := slices.Clone(plan.Assignments)
	for i := range next {
		if next[i].Key == m.Key() {
			next[i].CPUs = m.To
		}
	}
	s.Previous = next
	after := s.Decide()
	for _, a := range next {
		if !a.CPUs.IsSubsetOf(pools.Assigned(after.Plan.Assignments, a.Key)) {
			return nil, fmt.Errorf("%s/%s would lose CPUs by it", a.PodUID, a.Container)
		}
	}
	// Two owners that exchange CPUs need a free CPU for the moment between.
	_, deferred := l.diff(after.Targets, l.planner.DiffOptions(after.Plan, moment), now)
	for _, t := range after.Targets {
		if err := moves.Waits(t, deferred); err != nil && l.settings.OwnerOf(t, l.inventory.Objects()) == m.Key() {
			return nil, fmt.Errorf("cannot be carried out: %w", err)
		}
	}
	return l.units.Assign(next), nil
}
