package daemon

import (
	"context"
	"errors"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// unitReverted says that a unit has its original properties back.
type unitReverted struct {
	name string
	err  error
}

// revertUnits gives those units their properties back that the configuration does
// not name any more, or that have to be left alone: their CPUs go to others. The journal knows units by their own
// names and the configuration may name them by an alias: until systemd has told
// what each of its names stands for, nobody is known to have left it.
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
		l.seals.submit(string(originals[0].Path), func(ctx context.Context) event {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			return unitReverted{name, l.units.Revert(ctx, name, properties(originals), l.nodes)}
		})
	}
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
	if name := l.model.configuredAs(l.placedUnits(), e.name); name != "" {
		l.fetchUnit(name) // it has come back meanwhile: what is known of it is old
		return
	}
	l.ledger.forgetUnit(e.name)
	l.log.Info("unit has its CPUs back", "unit", e.name)
}

// properties are the originals of a unit as systemd takes them.
func properties(originals []Original) []cgroup.Property {
	names := map[string]string{cgroup.FileCPUs: cgroup.UnitCPUs, cgroup.FileMems: cgroup.UnitMems}
	var all []cgroup.Property
	for _, o := range originals {
		if name, ok := names[o.File]; ok {
			all = append(all, cgroup.Property{Name: name, Value: o.Value})
		}
	}
	return all
}
