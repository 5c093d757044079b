package quiet

import (
	"maps"
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

// Quiet is what waits.
type Quiet struct {
	On      bool
	Since   time.Time // when the first of it began to wait; zero: nothing does
	over    time.Time // until then nothing waits, because time was up
	Resting cpuset.Set
	Weights map[cgroup.Path]bool

	Unparked cpuset.Set // CPUs that are to be parked
	Parked   cpuset.Set // those that did not wait for it, whatever has become of them
}

// QuietReason is the reason for what waits.
const QuietReason = "quiet: somebody has CPUs of its own, and nobody needs this to keep them"

// QuietBreak is for how long nothing waits when time is up: one pass does not always do
// for what has waited. It may have to wait for the journal, or a worker to try again.
const QuietBreak = 10 * time.Second

// Begin is at the start of a pass: when time is up nothing waits in it.
func (q *Quiet) Begin(limit time.Duration, now time.Time) {
	if !q.Since.IsZero() && !now.Before(q.Since.Add(limit)) {
		q.over = now.Add(min(limit, QuietBreak))
	}
	q.On = limit > 0 && !now.Before(q.over)
	if !q.On {
		q.Since, q.Resting, q.Weights, q.Unparked = time.Time{}, cpuset.Set{}, nil, cpuset.Set{}
	}
}

// Rest are the CPUs that may rest in a plan: those that do, and those of owners that the
// plan finds gone.
func (q *Quiet) Rest(previous []pools.Assignment) cpuset.Set {
	if !q.On {
		return cpuset.Set{}
	}
	all := q.Resting
	for _, a := range previous {
		all = all.Union(a.CPUs)
	}
	return all
}

// Settle is what waits by a plan: CPUs, and the weights of others than owners among those
// that somebody has changed since they were as wanted. It says whether that is news.
func (q *Quiet) Settle(plan pools.Plan, want []cgroup.Target, changed map[cgroup.Path]bool, now time.Time) (news bool) {
	weights := make(map[cgroup.Path]bool)
	for _, t := range want {
		if q.On && len(plan.Assignments) > 0 && changed[t.Path] && !t.Exclusive && !t.Unlimited && t.Weight != 0 {
			weights[t.Path] = true
		}
	}
	news = !q.Resting.Equal(plan.Resting) || !maps.Equal(q.Weights, weights)
	q.Resting, q.Weights = plan.Resting, weights
	switch {
	case q.Resting.IsEmpty() && len(weights) == 0 && q.Unparked.IsEmpty():
		q.Since = time.Time{}
	case q.Since.IsZero():
		q.Since = now
	}
	return news
}

// Park says which CPUs of those that can be are parked now: those that are or were to be,
// while somebody has CPUs of its own. It says whether it is news that others wait.
func (q *Quiet) Park(can, are cpuset.Set, owned bool, now time.Time) (cpus cpuset.Set, news bool) {
	was := q.Unparked
	if q.Unparked, q.Parked = (cpuset.Set{}), can.Intersection(are.Union(q.Parked)); !q.On || !owned {
		q.Parked = can
		return can, false
	}
	if q.Unparked = can.Difference(q.Parked); !q.Unparked.IsEmpty() && q.Since.IsZero() {
		q.Since = now
	}
	return q.Parked, !q.Unparked.IsEmpty() && !q.Unparked.Equal(was)
}

// Explain gives the writes that wait their reason.
func (q *Quiet) Explain(deferred []cgroup.Deferred) {
	for i := range deferred {
		if d := &deferred[i]; q.Waits(d.Path, d.Property) {
			d.Reason = QuietReason
		}
	}
}

// Waits says that a property of a cgroup is not as planned on purpose.
func (q *Quiet) Waits(p cgroup.Path, property string) bool {
	return property == cgroup.FileWeight && q.Weights[p]
}

// Next calls earlier with the time at which what waits is to be done.
func (q *Quiet) Next(limit time.Duration, earlier func(time.Time)) {
	if limit > 0 && !q.Since.IsZero() {
		earlier(q.Since.Add(limit))
	}
}

// Counts is what waits, as it is shown.
func (q *Quiet) Counts() map[string]int {
	return map[string]int{"cpus": q.Resting.Union(q.Unparked).Len(), "weights": len(q.Weights)}
}
