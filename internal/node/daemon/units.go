package daemon

import (
	"context"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// newUnits returns the units of the configuration.
func newUnits(l *Loop) *units.Units {
	return units.New(units.Sources{
		Host: &l.Host, Settings: &l.settings, Inventory: l.inventory, Cache: l.cache, Journal: l.journal, Backoffs: l.backoffs, Log: l.log,
		Submit: func(queue string, job func(context.Context) units.Result) {
			l.workers.Updates.Submit(queue, func(ctx context.Context) event { return unitResult{job(ctx)} })
		},
	})
}

// unitResult is the result of a job about a unit.
type unitResult struct{ units.Result }

func (e unitResult) apply(l *Loop) { l.units.Apply(e.Result, l.now()) }

// unitWoken reports a change of a unit, or of any unit if the name is empty.
type unitWoken struct{ name string }

func (e unitWoken) apply(l *Loop) {
	l.publisher.States.Units(nil)
	if e.name == "" {
		l.units.AskAll(l.now())
	} else if slices.Contains(l.settings.UnitNames(), e.name) {
		l.units.Ask(e.name, l.now())
	}
}

// systemdReloaded reports that systemd has reloaded its units, and may have reset values that
// it has not recorded.
type systemdReloaded struct{}

func (systemdReloaded) apply(l *Loop) {
	l.drifts.Reloaded(l.now())
	l.publisher.States.Reloads(nil)
	l.cache.InvalidateAll()
	l.partitions.RecheckAll()
	l.units.Reloaded(l.now())
}

// reloadsLost reports that systemd no longer reports its reloads.
type reloadsLost struct{ err error }

func (e reloadsLost) apply(l *Loop) { l.publisher.States.Reloads(e.err) }

// unitsLost reports that systemd no longer reports changes of units.
type unitsLost struct{ err error }

func (e unitsLost) apply(l *Loop) { l.publisher.States.Units(e.err) }

// askUnits fetches the systemd properties of containers whose properties are unknown.
func (l *Loop) askUnits(want []cgroup.Target) {
	if l.Units == nil {
		return
	}
	for _, p := range l.units.Scopes().Ask(want) {
		// The queue of the cgroup's slow writes, so that no answer is older than the last write.
		l.workers.Updates.Submit(string(p), func(ctx context.Context) event {
			ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
			defer cancel()
			return unitRead{path: p, unit: l.UnitState(ctx, p)}
		})
	}
}

// unitRead holds the systemd properties of a cgroup.
type unitRead struct {
	path cgroup.Path
	unit cgroup.UnitState
}

func (unitRead) scope(*Loop) scope { return scopeOne }

func (e unitRead) apply(l *Loop) { l.units.Scopes().Take(e.path, e.unit) }

func (unitRead) ownResult() {}
