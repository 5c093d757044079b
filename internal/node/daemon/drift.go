package daemon

import (
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// newDrifts returns a tracker for the external writes to the cgroups of the loop.
func newDrifts(l *Loop) *drift.Tracker {
	return drift.New(drift.Sources{
		Objects: l.inventory.Objects(), Cache: l.cache, Originals: l.journal.Originals, Backoffs: l.backoffs, Formula: &l.planner.Formula, Log: l.log,
		AddEvent: func(at cgroup.Path, e history.Event) { l.publisher.History().AddAt(l.inventory.Objects(), at, e) },
	})
}

// followDrifts opens a drift for each external write that the last reading has found. It reads
// the records of the cgroups before the daemon repairs them.
func (l *Loop) followDrifts(now time.Time) {
	drifted, hosts := l.drifts.Open(now, func(p cgroup.Path) bool { return l.Observes || l.notices.Unidentified.Has(p) })
	for _, t := range drifted {
		l.workers.Updates.Submit(string(t.Path), func(ctx context.Context) event {
			return recordRead{drift.FetchRecord(ctx, &l.Host, t)}
		})
	}
	for _, t := range hosts { // an administrator may have set the CPUs of the unit
		l.units.Ask(l.inventory.Objects().Units().At(t.Path), l.now())
	}
}

// recordRead is the event of an answer to FetchRecord.
type recordRead struct{ drift.Record }

func (recordRead) scope(*Loop) scope { return scopeOne }

func (e recordRead) apply(l *Loop) { l.drifts.Confirm(e.Record) }
