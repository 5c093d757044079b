// Package quiet decides which optional writes are deferred while there are owners (configuration key
// quiet), and when they are made after all. The package is pure: callers pass the time.
package quiet

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Quiet period
//
// Each write for other containers is work on a node whose owners want no disturbance. While
// there are owners, three kinds of changes are deferred:
//
//   - CPUs that an owner has left rest outside the shared pool, so that shared containers
//     do not get CPUs and lose them to the next owner. They join the pool when the next
//     owner gets other CPUs, because then shared containers are written anyway.
//   - Free CPUs are not parked.
//   - Weights keep the value of an external write.
//
// Writes that keep CPUs exclusive, and writes for a container that starts, are never deferred.
// All deferred changes are made when the last owner is gone, or when the first of them has
// been deferred for the configured time.

// breakTime is without deferrals after the configured time: one pass may not suffice.
const breakTime = 10 * time.Second

const reason = "quiet period: an owner has exclusive CPUs, and this write does not protect them"

// Quiet holds the deferred changes.
type Quiet struct {
	limit    time.Duration // of the configuration
	active   bool          // changes may be deferred in this pass
	since    time.Time     // when the first deferred change was deferred; zero: no change is
	over     time.Time     // end of the break after the configured time
	resting  cpuset.Set
	weights  map[cgroup.Path]bool
	reported bool // Settle has reported deferred changes

	unparked cpuset.Set // CPUs whose parking is deferred
	parked   cpuset.Set // CPUs whose parking was not deferred, parked or not
}

// New returns a Quiet in which CPUs rest already, by the journal.
func New(resting cpuset.Set) *Quiet { return &Quiet{resting: resting} }

// Begin begins a pass. A limit of zero switches the quiet period off.
func (q *Quiet) Begin(limit time.Duration, now time.Time) {
	q.limit = limit
	if !q.since.IsZero() && !now.Before(q.since.Add(limit)) {
		q.over = now.Add(min(limit, breakTime))
	}
	q.active = limit > 0 && !now.Before(q.over)
	if !q.active {
		q.since, q.resting, q.weights, q.unparked = time.Time{}, cpuset.Set{}, nil, cpuset.Set{}
	}
}

// Active reports whether changes may be deferred in this pass.
func (q *Quiet) Active() bool { return q.active }

// MayRest returns the CPUs that rest, and the CPUs of the previous assignments.
func (q *Quiet) MayRest(previous []pools.Assignment) cpuset.Set {
	if !q.active {
		return cpuset.Set{}
	}
	all := q.resting
	for _, a := range previous {
		all = all.Union(a.CPUs)
	}
	return all
}

// Resting returns the CPUs that rest.
func (q *Quiet) Resting() cpuset.Set { return q.resting }

// Settle takes the resting CPUs from a plan, and defers weights of targets. A weight is
// deferred if an external write has changed it since it had its desired value, and its
// cgroup has no exclusive CPUs. Settle reports whether other changes are deferred than
// before, and whether the last deferred change has ended.
func (q *Quiet) Settle(plan pools.Plan, want []cgroup.Target, changed map[cgroup.Path]bool, now time.Time) (news, ended bool) {
	weights := make(map[cgroup.Path]bool)
	for _, t := range want {
		if q.active && len(plan.Assignments) > 0 && changed[t.Path] && !t.Exclusive && !t.Unlimited && t.Weight != 0 {
			weights[t.Path] = true
		}
	}
	before := q.reported || !q.since.IsZero()
	news = !q.resting.Equal(plan.Resting) || !maps.Equal(q.weights, weights)
	q.resting, q.weights = plan.Resting, weights
	if q.resting.IsEmpty() && len(weights) == 0 && q.unparked.IsEmpty() {
		q.since = time.Time{}
	} else {
		q.deferAt(now)
	}
	q.reported = !q.since.IsZero()
	return news && q.reported, before && !q.reported
}

func (q *Quiet) deferAt(now time.Time) {
	if q.since.IsZero() {
		q.since = now
	}
}

// Park returns the CPUs to park. While there are owners, these are the parked CPUs, and the CPUs
// whose parking was not deferred. Park reports whether
// other CPUs are deferred than before.
func (q *Quiet) Park(can, are cpuset.Set, owned bool, now time.Time) (cpus cpuset.Set, news bool) {
	if !q.active || !owned {
		q.unparked, q.parked = cpuset.Set{}, can
		return can, false
	}
	before := q.unparked
	q.parked = can.Intersection(are.Union(q.parked))
	q.unparked = can.Difference(q.parked)
	if q.unparked.IsEmpty() {
		return q.parked, false
	}
	q.deferAt(now)
	return q.parked, !q.unparked.Equal(before)
}

// Unparked returns the CPUs whose parking is deferred.
func (q *Quiet) Unparked() cpuset.Set { return q.unparked }

// StopParking forgets the parking of CPUs, because it is switched off.
func (q *Quiet) StopParking() { q.unparked, q.parked = cpuset.Set{}, cpuset.Set{} }

// Weights returns the cgroups whose weight is deferred, in no order.
func (q *Quiet) Weights() iter.Seq[cgroup.Path] { return maps.Keys(q.weights) }

// Defers reports whether a property of a cgroup is deferred.
func (q *Quiet) Defers(p cgroup.Path, property string) bool {
	return property == cgroup.FileWeight && q.weights[p]
}

// FilesWait reports whether a write of a cgroup file is deferred. Other writes do not wait for
// deferred records, nor for writes that Quiet defers.
func (q *Quiet) FilesWait(deferred []cgroup.Deferred) bool {
	return slices.ContainsFunc(deferred, func(d cgroup.Deferred) bool {
		switch d.Property {
		case cgroup.FileCPUs, cgroup.FileMems, cgroup.FileWeight, cgroup.FileMax:
			return !q.Defers(d.Path, d.Property)
		}
		return false
	})
}

// Explain sets the reason of the writes that Quiet defers.
func (q *Quiet) Explain(deferred []cgroup.Deferred) {
	for i := range deferred {
		if d := &deferred[i]; q.Defers(d.Path, d.Property) {
			d.Reason = reason
		}
	}
}

// Until returns the time at which deferred changes are made; zero without such changes.
func (q *Quiet) Until() time.Time {
	if q.limit <= 0 || q.since.IsZero() {
		return time.Time{}
	}
	return q.since.Add(q.limit)
}

// Counts returns the numbers of deferred changes, by their names in metrics.
func (q *Quiet) Counts() map[string]int {
	return map[string]int{"cpus": q.resting.Union(q.unparked).Len(), "weights": len(q.weights)}
}
