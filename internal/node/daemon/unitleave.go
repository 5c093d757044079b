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

// settleUnits looks at the CPUs of units that are not placed any more, which may be
// on them still. One that has another name in the configuration now takes them
// along; of the others they are given to nobody until they have been reverted, or
// until it is known that they do not exist.
func (l *Loop) settleUnits() {
	names, placed := l.settings.UnitNames(), l.placedUnits()
	maps.DeleteFunc(l.status.away, func(own string, _ bool) bool {
		return l.inventory.ConfiguredAs(placed, own) != "" // it may be there, and get CPUs
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

// follows says that a unit is of the configuration, or was and may have its CPUs
// still.
func (l *Loop) follows(name string) bool {
	return slices.Contains(l.settings.UnitNames(), name) || !desired.Assigned(l.assignments, pools.Key{Container: name}).IsEmpty()
}

// forgetUnits drops what is known of units that are not followed.
func (l *Loop) forgetUnits() {
	l.inventory.ForgetUnits(func(name string) bool { return !l.follows(name) })
	maps.DeleteFunc(l.status.asks, func(name string, _ *unitAsk) bool { return !l.follows(name) })
}

// leavingCPUs are those that nobody may have for now: of units that leave, and those
// that the kernel has lost.
func (l *Loop) leavingCPUs() cpuset.Set {
	all := l.isolation.leaked
	for _, cpus := range l.leavingCgroups() {
		all = all.Union(cpus)
	}
	return all
}

// leavingCgroups has the same by the cgroups of those who are to leave.
func (l *Loop) leavingCgroups() map[cgroup.Path]cpuset.Set {
	all := make(map[cgroup.Path]cpuset.Set, len(l.status.leaving))
	for _, a := range l.status.leaving {
		var p cgroup.Path // until systemd has told
		if e := l.inventory.Unit(a.Key.Container); e != nil {
			p = e.Unit.Path
		}
		all[p] = all[p].Union(a.CPUs)
	}
	return all
}

// placedUnits are the names of the units that are not left alone.
func (l *Loop) placedUnits() []string {
	hosts := l.settings.HostUnits()
	encloses := func(name string) bool { return l.inventory.Encloses(name, hosts) != "" }
	return slices.Concat(slices.DeleteFunc(l.settings.PlacedNames(), encloses), slices.DeleteFunc(slices.Clone(hosts), l.leftAlone))
}

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
