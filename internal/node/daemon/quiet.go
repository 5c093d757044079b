package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// spare has Diff leave what waits.
func spare(q *quiet.Quiet, m limits) {
	for p := range q.Weights {
		m.mark(p, func(c *cgroup.Current) { c.Left = append(slices.Clip(c.Left), cgroup.FileWeight) })
	}
}

// settleQuiet takes over what waits by the plan of this pass, and says in the log what
// has changed.
func (l *Loop) settleQuiet(plan pools.Plan, want []cgroup.Target, now time.Time) {
	waited := !l.quiet.Since.IsZero() || l.status.quieted
	news := l.quiet.Settle(plan, want, l.drifts.changed(cgroup.FileWeight), now)
	l.journal.SetResting(l.quiet.Resting)
	switch l.status.quieted = !l.quiet.Since.IsZero(); {
	case l.status.quieted && news:
		l.log.Info("quiet: waits", "cpus", l.quiet.Resting, "weights", len(l.quiet.Weights),
			"until", l.quiet.Since.Add(l.settings.Config.Quiet).Format(time.RFC3339))
	case waited && !l.status.quieted:
		l.log.Info("quiet: nothing waits any more")
	}
}
