// Package moves holds the moves of owners to other CPUs that operators request on the control
// socket. The event loop decides whether a move is possible and makes it part of the desired
// state. After each pass, Moves answers the moves whose owner has the new CPUs, in the kernel and
// in the records of runtime and systemd. One goroutine uses a Moves.
package moves

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Move asks the event loop to move an owner to other CPUs.
type Move struct {
	control.Move
	waits.Question[control.Outcome]
	retried bool // the move was blocked, and is tried once more
}

// Ask returns a move. canceled is closed when the operator no longer waits.
func Ask(m control.Move, canceled <-chan struct{}) *Move {
	return &Move{Move: m, Question: waits.Ask[control.Outcome](canceled)}
}

// Request returns the function that makes a move for the control socket. post hands the move to
// the event loop.
func Request(post func(*Move)) control.MoveFunc {
	return func(ctx context.Context, of control.Move) (control.Outcome, error) {
		m := Ask(of, ctx.Done())
		post(m)
		select {
		case a := <-m.Reply():
			return a.Value, a.Err
		case <-ctx.Done():
			return control.Unverified, errors.New("not verified in time; the daemon's log contains the reason, and cpupoold plan shows where the owner is")
		}
	}
}

// Key returns the key of the owner.
func (m *Move) Key() pools.Key { return pools.Key{PodUID: m.PodUID, Container: m.Container} }

// Check returns the reason why the owner must not be moved, nil if it may. The plan is in force, and
// owners are its owners.
func (m *Move) Check(plan *pools.Plan, owners defrag.Input) error {
	for pod, c := range plan.Containers() {
		if pod.UID == m.PodUID && c.Name == m.Container && len(c.Claims) > 0 {
			return errors.New("must stay where it is: it has the CPUs of a ResourceClaim, and the CPUs of a ResourceClaim never move")
		}
	}
	return defrag.Check(owners, m.Key(), m.From, m.To)
}

func (m *Move) attrs() []any {
	return []any{"pod_uid", m.PodUID, "container", m.Container, "from", m.From, "to", m.To}
}

// Sources holds what Moves reads, and its logs.
type Sources struct {
	Log      *slog.Logger
	History  *view.HistoryLog
	Settings *desired.Settings
	Objects  *inventory.Objects
	Cache    *kernelstate.Cache
	Backoffs *retry.Backoffs
	Journal  *undo.Journal
}

// Moves holds the moves that are not answered.
type Moves struct {
	from    Sources
	open    []*Move // part of the desired state
	blocked []*Move // blocked, and tried once more
}

// New returns a Moves without moves.
func New(s Sources) *Moves { return &Moves{from: s} }

// IsEmpty reports whether no move is open or blocked.
func (a *Moves) IsEmpty() bool { return len(a.open)+len(a.blocked) == 0 }

// Take takes the decision about a move: nil if it is part of the desired state now, or the reason
// against it. It reports whether the move is open. A move that a write in progress prevents is
// tried once more, because the write may be the daemon's own.
func (a *Moves) Take(m *Move, err error) (open bool) {
	switch {
	case errors.Is(err, errBeingWritten) && !m.retried:
		m.retried = true
		a.blocked = append(a.blocked, m)
	case err != nil:
		a.from.Log.Warn("move refused", append(m.attrs(), "error", err)...)
		a.note(m, err)
		m.Answer(control.Refused, err)
	default:
		a.from.Log.Info("move", m.attrs()...)
		a.note(m, nil)
		a.open = append(a.open, m)
		return true
	}
	return false
}

// TakeBlocked returns the blocked moves, and removes them.
func (a *Moves) TakeBlocked() []*Move {
	again := a.blocked
	a.blocked = nil
	return again
}

// Answer answers the moves that are complete or impossible after the last pass, with the assignments in force.
func (a *Moves) Answer(last *planning.Pass, assignments []pools.Assignment, now time.Time) {
	a.open = slices.DeleteFunc(a.open, func(m *Move) bool {
		if !m.To.IsSubsetOf(pools.Assigned(assignments, m.Key())) {
			m.Answer(control.Unverified, errors.New("the owner has ended during the move, or the pools have changed"))
			return true
		}
		err := a.Settled(m.Key(), last, now)
		switch {
		case errors.Is(err, errNoCgroup):
			m.Answer(control.Unverified, errors.New("the owner has ended during the move"))
		case err == nil:
			a.from.Log.Info("moved", m.attrs()...)
			m.Answer(control.Done, nil)
		default:
			return false
		}
		return true
	})
}

var (
	errBeingWritten = errors.New("is being written")
	errNoCgroup     = errors.New("its cgroup is not known, or has gone")
)

// Settled returns nil if an owner has its planned CPUs in the kernel and in the records of
// runtime and systemd, without a write in progress. Otherwise the error describes the cause.
func (a *Moves) Settled(key pools.Key, last *planning.Pass, now time.Time) error {
	found := false
	for _, t := range last.Targets {
		if a.from.Settings.OwnerOf(t, a.from.Objects) != key {
			continue
		}
		found = true
		c := a.from.Cache.Current(t.Path)
		switch {
		case a.from.Cache.IsStale(t.Path) || a.from.Cache.Writes.IsBusy(t.Path) || a.from.Backoffs.Waiting(t.Path, now):
			return fmt.Errorf("%s %w", t.Path, errBeingWritten)
		case a.from.Journal.Blocks():
			return fmt.Errorf("the journal %w", errBeingWritten)
		case t.Container != "" && c.RecordedKnown && !c.Recorded.Equal(t.CPUs):
			return fmt.Errorf("the runtime has recorded CPUs %s for %s, not %s", c.Recorded, t.Path, t.CPUs)
		case t.Unit != "" && !c.Unit.CPUs.Equal(t.CPUs):
			return fmt.Errorf("systemd has recorded CPUs %s for %s, not %s", c.Unit.CPUs, t.Unit, t.CPUs)
		}
		if err := a.unverified(t, c, last); err != nil {
			return err
		}
	}
	if !found {
		return errNoCgroup
	}
	return nil
}

// unverified returns an error if the cgroup of a target is not known to be in the desired
// state.
func (a *Moves) unverified(t cgroup.Target, c cgroup.Current, last *planning.Pass) error {
	if err := errors.Join(a.from.Backoffs.Err(t.Path), last.Unreadable[t.Path]); err != nil {
		return err
	}
	if err := Waits(t, last.Deferred); err != nil {
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

// Waits returns an error if a write of the target is deferred.
func Waits(t cgroup.Target, deferred []cgroup.Deferred) error {
	for _, d := range deferred {
		if d.Path == t.Path {
			return fmt.Errorf("%s of %s waits: %s", d.Property, d.Path, d.Reason)
		}
	}
	return nil
}

func (a *Moves) note(m *Move, err error) {
	e := history.Event{Kind: history.Move, PodUID: m.PodUID, Container: m.Container, Before: m.From.String(), Value: m.To.String(), Cause: "asked for on the control socket"}
	if m.PodUID == "" {
		e.Unit, e.Container = e.Container, ""
	}
	if pod := a.from.Objects.PodByUID(m.PodUID); pod != nil {
		e.Pod = pod.Name()
	}
	if err != nil {
		e.Error = err.Error()
	}
	a.from.History.Add(e)
}
