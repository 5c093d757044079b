package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// settleUnits decides about the CPUs of units that the configuration no longer places and
// that may still run on them. A unit with another name in the configuration keeps its CPUs.
// The CPUs of other units stay reserved until the unit is reverted, or until systemd reports
// that it does not exist.
func (l *Loop) settleUnits() {
	names, placed := l.settings.UnitNames(), l.placedUnits()
	maps.DeleteFunc(l.status.away, func(own string, _ bool) bool {
		return l.inventory.ConfiguredAs(placed, own) != "" // the unit exists or may come back, and gets CPUs
	})
	var kept, left, leaving []pools.Assignment
	for _, a := range l.assignments {
		if a.Key.PodUID != "" || slices.Contains(placed, a.Key.Container) {
			kept = append(kept, a)
		} else {
			left = append(left, a)
		}
	}
	for _, a := range left {
		name := a.Key.Container
		own := l.inventory.UnitName(name)
		heir := l.inventory.ConfiguredAs(placed, own)
		switch {
		case l.Units == nil:
		case l.inventory.HasUnnamed([]string{name}):
			if l.status.asks[name] == nil {
				l.fetchUnit(name)
			}
			leaving = append(leaving, a)
		case heir != "":
			kept = l.settings.Inherit(kept, heir, a)
		case l.inventory.HasUnnamed(names), l.journal.UnitOriginals()[own] != nil && !l.status.away[own]:
			leaving = append(leaving, a)
		}
	}
	l.status.leaving = leaving
	if len(left) == 0 {
		return
	}
	l.assignments = slices.Concat(kept, leaving)
	l.forgetUnits()
}

// follows reports whether the configuration contains a unit, or a removed unit may still
// have its CPUs.
func (l *Loop) follows(name string) bool {
	return slices.Contains(l.settings.UnitNames(), name) || !desired.Assigned(l.assignments, pools.Key{Container: name}).IsEmpty()
}

// forgetUnits drops the units that the daemon does not follow.
func (l *Loop) forgetUnits() {
	l.inventory.ForgetUnits(func(name string) bool { return !l.follows(name) })
	maps.DeleteFunc(l.status.asks, func(name string, _ *unitAsk) bool { return !l.follows(name) })
}

// leavingCPUs returns the CPUs that no owner may get now: the CPUs of units that leave, and
// the CPUs that no cgroup has.
func (l *Loop) leavingCPUs() cpuset.Set {
	all := l.isolation.leaked
	for _, cpus := range l.leavingCgroups() {
		all = all.Union(cpus)
	}
	return all
}

// leavingCgroups returns the CPUs of units that leave, by their cgroups.
func (l *Loop) leavingCgroups() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set, len(l.status.leaving))
	for _, a := range l.status.leaving {
		var p cgroup.Path // unknown until systemd answers
		if e := l.inventory.Unit(a.Key.Container); e != nil {
			p = e.Unit.Path
		}
		all[p] = all[p].Union(a.CPUs)
	}
	return all
}

// placedUnits returns the names of the units that the daemon places.
func (l *Loop) placedUnits() []string {
	hosts := l.settings.HostUnits()
	isLeft := func(name string) bool { return !l.inventory.CanPlace(name, hosts) }
	return slices.Concat(slices.DeleteFunc(l.settings.PlacedNames(), isLeft), slices.DeleteFunc(slices.Clone(hosts), l.isUnmanagedHostUnit))
}

// unitReverted is the result of the restoration of a unit's original properties.
type unitReverted struct {
	name string
	path cgroup.Path // the cgroup in the journal
	err  error
}

// revertUnits restores the properties of units that the configuration no longer places:
// their CPUs go to other owners. The journal contains the units' own names, and the
// configuration may contain aliases. So no unit is reverted before systemd has answered for
// each name of the configuration.
func (l *Loop) revertUnits() {
	names := l.settings.UnitNames()
	if l.Units == nil || !l.journal.Safe() || l.inventory.HasUnnamed(names) {
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
			return unitReverted{name, p, revertUnit(ctx, &l.Host, name, originals)}
		})
	}
}

// revertUnit restores the properties of a unit. It checks that systemd has them and that the
// unit runs on its earlier CPUs. It runs in a worker.
func revertUnit(ctx context.Context, h *hostenv.Host, name string, originals []undo.Original) error {
	ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
	defer cancel()
	if err := h.Units.Revert(ctx, name, undo.Properties(originals), h.Nodes); err != nil {
		return err
	}
	for _, o := range originals {
		// systemd applies a change before it answers the next question.
		st, err := undo.StateOf(ctx, h, o)
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

// verifyReverted returns an error if the kernel does not show all CPUs that a unit had before
// the daemon's first write. A stopped unit has no cgroup and needs no check.
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
		l.fetchUnit(name) // its properties may have changed, also after an error
	}
	if l.inventory.ConfiguredAs(l.placedUnits(), e.name) != "" {
		delete(l.status.reverting, e.name) // the configuration contains the unit again
		return
	}
	if errors.Is(e.err, cgroup.ErrGone) {
		// The daemon's properties are still in systemd's runtime directory. They apply if
		// the unit comes back.
		if !l.status.away[e.name] {
			l.log.Warn("unit is gone, and gets its CPUs back should it come again before the next boot", "unit", e.name)
		}
		l.status.away[e.name] = true
		return // the next listing tries again
	}
	if e.err != nil {
		l.log.Error("unit has not got its CPUs back", "unit", e.name, "error", e.err)
		return // the next listing tries again
	}
	delete(l.status.reverting, e.name)
	delete(l.status.away, e.name)
	l.journal.ForgetUnit(e.name)
	l.backoffs.Forget(func(p cgroup.Path) bool { return p == e.path }) // the unit may get the same values again soon
	l.log.Info("unit has its CPUs back", "unit", e.name)
}
