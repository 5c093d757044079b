package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// newDrifts returns a tracker for the external writes to the cgroups of the loop.
func newDrifts(l *Loop) *drift.Tracker {
	return drift.New(drift.Sources{
		Inventory: l.inventory, Cache: l.cache, Journal: l.journal, Backoffs: l.backoffs, Formula: &l.formula, Log: l.log, AddEvent: l.noteAt,
	})
}

// followDrifts opens a drift for each external write that the last reading has found. It reads
// the records of the cgroups before the daemon repairs them.
func (l *Loop) followDrifts(now time.Time) {
	drifted, hosts := l.drifts.Open(now, func(p cgroup.Path) bool { return l.Observes || l.unidentified.Has(p) })
	for _, t := range drifted {
		l.workers.Updates.Submit(string(t.Path), func(ctx context.Context) event {
			return recordRead{drift.FetchRecord(ctx, &l.Host, t)}
		})
	}
	for _, t := range hosts { // an administrator may have set the CPUs of the unit
		l.units.Ask(l.inventory.UnitAt(t.Path), l.now())
	}
}

// recordRead is the event of an answer to FetchRecord.
type recordRead struct{ drift.Record }

func (recordRead) scope(*Loop) scope { return scopeOne }

func (e recordRead) apply(l *Loop) { l.drifts.Confirm(e.Record) }

// changedWeights returns the cgroups with an unrepaired drift of the weight.
func (l *Loop) changedWeights() map[cgroup.Path]bool {
	all := make(map[cgroup.Path]bool)
	for p, properties := range l.drifts.Unrepaired() {
		if slices.Contains(properties, cgroup.FileWeight) {
			all[p] = true
		}
	}
	return all
}

// unrepairedDrifts returns the number of unrepaired drifts. It omits the cpusets of cgroups that
// are confined in a write conflict.
func (l *Loop) unrepairedDrifts() int {
	n := 0
	for p, properties := range l.drifts.Unrepaired() {
		for _, property := range properties {
			if property != cgroup.FileCPUs || !l.backoffs.Confines(p, l.status.runsOutside(l.cache), l.now()) {
				n++
			}
		}
	}
	return n
}

// driftView adds the figures of drifts to a view.
func (l *Loop) driftView(v *telemetry.View) {
	f := l.drifts.Figures()
	v.Drifts, v.Repaired, v.Repairs, v.Open = f.Total, f.Repaired, f.Repairs, l.unrepairedDrifts()
}
