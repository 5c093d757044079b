package daemon

import (
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Quiet
//
// Each write for others is work on the node of somebody who was promised to be left in
// peace. While anybody has CPUs of its own, what is not needed to keep them exclusive, nor
// for a container that begins, waits: CPUs that an owner has left stay out of the shared
// pool, so that nobody is widened now and narrowed for the next owner (until one gets
// others, and who shares has to give way anyway), or are not parked, and weights that
// somebody else has changed stay so. All of it is done at once when the last owner is
// gone, or when the first of it has waited for as long as the configuration says.

// quiet is what waits.
type quiet struct {
	on      bool
	since   time.Time // when the first of it began to wait; zero: nothing does
	over    time.Time // until then nothing waits, because time was up
	resting cpuset.Set
	weights map[cgroup.Path]bool

	unparked cpuset.Set // CPUs that are to be parked
	parked   cpuset.Set // those that did not wait for it, whatever has become of them
}

// quietReason is the reason for what waits.
const quietReason = "quiet: somebody has CPUs of its own, and nobody needs this to keep them"

// quietBreak is for how long nothing waits when time is up: one pass does not always do
// for what has waited. It may have to wait for the journal, or a worker to try again.
const quietBreak = 10 * time.Second

// begin is at the start of a pass: when time is up nothing waits in it.
func (q *quiet) begin(limit time.Duration, now time.Time) {
	if !q.since.IsZero() && !now.Before(q.since.Add(limit)) {
		q.over = now.Add(min(limit, quietBreak))
	}
	q.on = limit > 0 && !now.Before(q.over)
	if !q.on {
		q.since, q.resting, q.weights, q.unparked = time.Time{}, cpuset.Set{}, nil, cpuset.Set{}
	}
}

// rest are the CPUs that may rest in a plan: those that do, and those of owners that the
// plan finds gone.
func (q *quiet) rest(previous []pools.Assignment) cpuset.Set {
	if !q.on {
		return cpuset.Set{}
	}
	all := q.resting
	for _, a := range previous {
		all = all.Union(a.CPUs)
	}
	return all
}

// settle is what waits by a plan: CPUs, and the weights of others than owners among those
// that somebody has changed since they were as wanted. It says whether that is news.
func (q *quiet) settle(plan pools.Plan, want []cgroup.Target, changed map[cgroup.Path]bool, now time.Time) (news bool) {
	weights := make(map[cgroup.Path]bool)
	for _, t := range want {
		if q.on && len(plan.Assignments) > 0 && changed[t.Path] && !t.Exclusive && !t.Unlimited && t.Weight != 0 {
			weights[t.Path] = true
		}
	}
	news = !q.resting.Equal(plan.Resting) || !maps.Equal(q.weights, weights)
	q.resting, q.weights = plan.Resting, weights
	switch {
	case q.resting.IsEmpty() && len(weights) == 0 && q.unparked.IsEmpty():
		q.since = time.Time{}
	case q.since.IsZero():
		q.since = now
	}
	return news
}

// park says which CPUs of those that can be are parked now: those that are or were to be,
// while somebody has CPUs of its own. It says whether it is news that others wait.
func (q *quiet) park(can, are cpuset.Set, owned bool, now time.Time) (cpus cpuset.Set, news bool) {
	was := q.unparked
	if q.unparked, q.parked = (cpuset.Set{}), can.Intersection(are.Union(q.parked)); !q.on || !owned {
		q.parked = can
		return can, false
	}
	if q.unparked = can.Difference(q.parked); !q.unparked.IsEmpty() && q.since.IsZero() {
		q.since = now
	}
	return q.parked, !q.unparked.IsEmpty() && !q.unparked.Equal(was)
}

// spare has Diff leave what waits.
func (q *quiet) spare(m marks) {
	for p := range q.weights {
		m.mark(p, func(c *cgroup.Current) { c.Left = append(slices.Clip(c.Left), cgroup.FileWeight) })
	}
}

// explain gives the writes that wait their reason.
func (q *quiet) explain(deferred []cgroup.Deferred) {
	for i := range deferred {
		if d := &deferred[i]; q.waits(d.Path, d.Property) {
			d.Reason = quietReason
		}
	}
}

// waits says that a property of a cgroup is not as planned on purpose.
func (q *quiet) waits(p cgroup.Path, property string) bool {
	return property == cgroup.FileWeight && q.weights[p]
}

// next calls earlier with the time at which what waits is to be done.
func (q *quiet) next(limit time.Duration, earlier func(time.Time)) {
	if limit > 0 && !q.since.IsZero() {
		earlier(q.since.Add(limit))
	}
}

// counts is what waits, as it is shown.
func (q *quiet) counts() map[string]int {
	return map[string]int{"cpus": q.resting.Union(q.unparked).Len(), "weights": len(q.weights)}
}

// settleQuiet takes over what waits by the plan of this pass, and says in the log what
// has changed.
func (l *loop) settleQuiet(plan pools.Plan, want []cgroup.Target, now time.Time) {
	waited := !l.quiet.since.IsZero() || l.status.quieted
	news := l.quiet.settle(plan, want, l.drifts.changed(cgroup.FileWeight), now)
	l.ledger.rest(l.quiet.resting)
	switch l.status.quieted = !l.quiet.since.IsZero(); {
	case l.status.quieted && news:
		l.log.Info("quiet: waits", "cpus", l.quiet.resting, "weights", len(l.quiet.weights),
			"until", l.quiet.since.Add(l.settings.config.Quiet).Format(time.RFC3339))
	case waited && !l.status.quieted:
		l.log.Info("quiet: nothing waits any more")
	}
}
