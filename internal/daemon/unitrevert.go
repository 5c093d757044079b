package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
func (l *loop) revertUnits() {
	names := l.settings.unitNames()
	if l.units == nil || !l.ledger.safe() || l.model.unnamed(names) {
		return
	}
	placed := l.placedUnits()
	for name, originals := range l.ledger.units() {
		if l.status.reverting[name] || l.model.configuredAs(placed, name) != "" {
			continue
		}
		l.status.reverting[name] = true
		p := originals[0].Path
		l.tree.begin(p)
		l.seals.submit(string(p), func(ctx context.Context) event {
			return unitReverted{name, p, l.revertUnit(ctx, name, originals)}
		})
	}
}

// revertUnit gives a unit its properties back, and looks whether it has them and has
// left its CPUs; it runs in a worker.
func (h *host) revertUnit(ctx context.Context, name string, originals []Original) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := h.units.Revert(ctx, name, properties(originals), h.nodes); err != nil {
		return err
	}
	for _, o := range originals {
		// systemd applies what it was told before it answers the next question.
		st, err := h.heldBy(ctx, o)
		if err != nil {
			return err
		}
		if d, differs := h.difference(o, st, nil); differs {
			return fmt.Errorf("systemd has %s %q for it, not %q", o.File, d.Now, o.Value)
		}
		if err := h.verifyReverted(o); err != nil {
			return err
		}
	}
	return nil
}

// verifyReverted asks the kernel whether a unit has the CPUs again that it had before
// the daemon gave it others. One that does not run has none to leave.
func (h *host) verifyReverted(o Original) error {
	if o.File != cgroup.FileCPUs {
		return nil
	}
	want, err := cpuset.Parse(o.Value)
	if err != nil {
		return fmt.Errorf("journal: original of %s in %s: %w", o.File, o.Path, err)
	}
	if want.IsEmpty() {
		want = h.possible
	}
	st, err := h.cgroups.Read(o.Path)
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

// unnamed says that systemd has not told yet which unit one of the names is.
func (m *model) unnamed(configured []string) bool {
	return slices.ContainsFunc(configured, func(name string) bool {
		e := m.units[name]
		return e == nil || e.unit.Name == ""
	})
}

// configuredAs is what the configuration calls a unit, "" if it does not name it.
func (m *model) configuredAs(configured []string, own string) string {
	i := slices.IndexFunc(configured, func(name string) bool { return name == own || m.unitName(name) == own })
	if i < 0 {
		return ""
	}
	return configured[i]
}

func (e unitReverted) apply(l *loop) {
	l.tree.end(e.path)
	if name := l.model.configuredAs(l.settings.unitNames(), e.name); name != "" {
		l.fetchUnit(name) // what is known of it is old, however this ended
	}
	if l.model.configuredAs(l.placedUnits(), e.name) != "" {
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
	l.ledger.forgetUnit(e.name)
	l.bench.forget(func(p cgroup.Path) bool { return p == e.path }) // it may get the same again soon
	l.log.Info("unit has its CPUs back", "unit", e.name)
}

// properties are the originals of a unit as systemd takes them.
func properties(originals []Original) []cgroup.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems, cgroup.FileWeight: cgroup.UnitWeight}
	var all []cgroup.Property
	for _, o := range originals {
		if name, ok := names[o.File]; ok {
			all = append(all, cgroup.Property{Name: name, Value: o.Value})
		}
	}
	return all
}
