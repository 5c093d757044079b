package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// limits holds the cgroups for which Diff must use other values than the cache: it omits some
// writes to them for now.
type limits struct {
	cache  *kernelstate.Cache
	marked map[cgroup.Path]cgroup.Current
}

// mark changes the state of a cached cgroup for the next Diff.
func (m limits) mark(p cgroup.Path, change func(*cgroup.Current)) {
	c, ok := m.marked[p]
	if !ok {
		if !m.cache.Has(p) {
			return
		}
		c = m.cache.Current(p)
	}
	change(&c)
	m.marked[p] = c
}

// moment returns the state of units, partitions and write conflicts for a plan.
func (l *Loop) moment(now time.Time) planning.Moment {
	return planning.Moment{
		Now: now, Leaving: l.units.Leaving(), Lost: l.partitions.Lost(), Parked: l.partitions.Parked(),
		Partitions: l.partitions.Enabled(), Contested: l.backoffs.Contested(now),
	}
}

// diff returns the writes that put the cgroups into the desired state, and the deferred writes.
func (l *Loop) diff(want []cgroup.Target, o cgroup.Options, now time.Time) ([]cgroup.Write, []cgroup.Deferred) {
	m := limits{l.cache, make(map[cgroup.Path]cgroup.Current)}
	for p, cpus := range l.notices.Unidentified.All() { // their records are not written
		m.mark(p, func(c *cgroup.Current) { c.Recorded, c.RecordedKnown = cpus, true })
	}
	for p := range l.backoffs.Affected(want) {
		m.mark(p, func(c *cgroup.Current) {
			c.NoWrite, c.NoRecord = l.backoffs.Paused(p, now)
			c.Left = l.backoffs.Pauses(p, l.cache.RunsOutside(l.last.Targets), now)
		})
	}
	for p := range l.planner.Quiet.Weights() {
		m.mark(p, func(c *cgroup.Current) { c.Left = append(slices.Clip(c.Left), cgroup.FileWeight) })
	}
	for p, properties := range l.drifts.Unrepaired() {
		m.mark(p, func(c *cgroup.Current) { c.Drifted = append(slices.Clip(c.Drifted), properties...) })
	}
	noRecord := func(c *cgroup.Current) { c.NoRecord = true }
	for p := range l.drifts.Unconfirmed() {
		m.mark(p, noRecord)
	}
	for i := range want {
		if e := l.inventory.Objects().Container(want[i].Container); e != nil && e.IsUnconfirmed() {
			m.mark(e.Path, noRecord)
		}
	}
	for p := range l.last.Unreadable {
		m.mark(p, func(c *cgroup.Current) { c.NoWrite, c.NoRecord = true, true })
	}
	return l.cache.Diff(want, m.marked, o)
}
