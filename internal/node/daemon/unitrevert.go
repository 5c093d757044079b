package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// unitReverted says that a unit has its original properties back.
type unitReverted struct {
	name string
	path cgroup.Path // its cgroup when it was given its CPUs
	err  error
}

// revertUnits gives those units their properties back that the configuration does
// not name any more, or that have to be left alone: their CPUs go to others. The
// journal knows units by their own names and the configuration may name them by an
// alias: until systemd has told what each of its names stands for, nobody is known
// to have left it.
func (l *Loop) revertUnits() {
	names := l.settings.UnitNames()
	if l.Units == nil || !l.journal.Safe() || l.inventory.Unnamed(names) {
		return
	}
	placed := l.placedUnits()
	for name, originals := range l.journal.UnitOriginals() {
		if l.status.reverting[name] || l.inventory.ConfiguredAs(placed, name) != "" {
			continue
		}
		l.status.reverting[name] = true
		p := originals[0].Path
		l.cache.BeginRevert(p)
		l.workers.Updates.Submit(string(p), func(ctx context.Context) event {
			return unitReverted{name, p, revertUnit(&l.Host, ctx, name, originals)}
		})
	}
}

// revertUnit gives a unit its properties back, and looks whether it has them and has
// left its CPUs; it runs in a worker.
func revertUnit(h *hostenv.Host, ctx context.Context, name string, originals []undo.Original) error {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	if err := h.Units.Revert(ctx, name, undo.Properties(originals), h.Nodes); err != nil {
		return err
	}
	for _, o := range originals {
		// systemd applies what it was told before it answers the next question.
		st, err := undo.StateOf(h, ctx, o)
		if err != nil {
			return err
		}
		if d, differs := undo.Compare(h, o, st, nil); differs {
			return fmt.Errorf("systemd has %s %q for it, not %q", o.File, d.Now, o.Value)
		}
		if err := verifyReverted(h, o); err != nil {
			return err
		}
	}
	return nil
}

// verifyReverted asks the kernel whether a unit has the CPUs again that it had before
// the daemon gave it others. One that does not run has none to leave.
func verifyReverted(h *hostenv.Host, o undo.Original) error {
	if o.File != cgroup.FileCPUs {
		return nil
	}
	want, err := cpuset.Parse(o.Value)
	if err != nil {
		return fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
	}
	if want.IsEmpty() {
		want = h.Possible
	}
	st, err := h.Cgroups.Read(o.Path)
	switch {
	case errors.Is(err, cgroup.ErrGone):
		return nil
	case err != nil:
		return err
	}
	if missing := want.Intersection(st.ParentEffective).Difference(st.Effective); !missing.IsEmpty() {
		return fmt.Errorf("%s has not got CPUs %s back", o.Path, missing)
	}
	return nil
}

func (unitReverted) scope(*Loop) scope { return scopeAll }

func (e unitReverted) apply(l *Loop) {
	l.cache.EndRevert(e.path)
	if name := l.inventory.ConfiguredAs(l.settings.UnitNames(), e.name); name != "" {
		l.fetchUnit(name) // what is known of it is old, however this ended
	}
	if l.inventory.ConfiguredAs(l.placedUnits(), e.name) != "" {
		delete(l.status.reverting, e.name) // it has come back meanwhile
		return
	}
	if errors.Is(e.err, cgroup.ErrGone) {
		// What was set for it is still in systemd's runtime directory, and would be
		// in force if it came back.
		if !l.status.away[e.name] {
			l.log.Warn("unit is gone, and gets its CPUs back should it come again before the next boot", "unit", e.name)
		}
		l.status.away[e.name] = true
		return // it is marked as being reverted until the next listing
	}
	if e.err != nil {
		l.log.Error("unit has not got its CPUs back", "unit", e.name, "error", e.err)
		return // likewise
	}
	delete(l.status.reverting, e.name)
	delete(l.status.away, e.name)
	l.journal.ForgetUnit(e.name)
	l.backoffs.Forget(func(p cgroup.Path) bool { return p == e.path }) // it may get the same again soon
	l.log.Info("unit has its CPUs back", "unit", e.name)
}
