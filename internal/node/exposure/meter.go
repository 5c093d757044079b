// Package exposure measures the time and the CPU time of containers outside their pool before their
// first placement. The event loop reports cgroups that appear and disappear, readings before the first
// write, and the end of each pass. One goroutine uses a [Meter].
package exposure

import (
	"cmp"
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Meter measures how long containers run outside of their CPUs. It counts only containers that are
// created while the daemon runs.
type Meter struct {
	objects *inventory.Objects
	cache   *kernelstate.Cache
	usage   func(cgroup.Path) (time.Duration, error)
	systemd bool // whether starts wait for an answer of systemd

	appeared   map[cgroup.Path]time.Time       // cgroups that are not placed yet, with the time of their creation
	confined   map[cgroup.Path]exposure        // unidentified cgroups in the shared pool
	unfinished map[cgroup.Path]unfinishedStart // placed cgroups without an answer of systemd
	total      map[telemetry.Way]*telemetry.Placements
}

type exposure struct {
	elapsed, used time.Duration
}

// unfinishedStart is a container whose cgroup existed without its CPUs, although the runtime
// had recorded them. The OCI runtime writes its specification into the cgroup before the
// entrypoint starts. But the specification may be older than the record: then only the daemon
// has written the CPUs, and systemd does not have them.
type unfinishedStart struct {
	way  telemetry.Way
	took exposure // if the specification was older
	cpus cpuset.Set
}

// New returns an empty Meter. usage returns the CPU time that the tasks of a cgroup have used. systemd is true if it
// reports the CPUs of units at their start.
func New(i *inventory.Objects, c *kernelstate.Cache, usage func(cgroup.Path) (time.Duration, error), systemd bool) *Meter {
	return &Meter{
		objects: i, cache: c, usage: usage, systemd: systemd,
		appeared:   make(map[cgroup.Path]time.Time),
		confined:   make(map[cgroup.Path]exposure),
		unfinished: make(map[cgroup.Path]unfinishedStart),
		total:      make(map[telemetry.Way]*telemetry.Placements),
	}
}

// Appeared records when a cgroup was created.
func (m *Meter) Appeared(p cgroup.Path, at time.Time) { m.appeared[p] = at }

// Gone forgets a cgroup.
func (m *Meter) Gone(p cgroup.Path) {
	m.finish(p, false)
	delete(m.appeared, p)
	delete(m.confined, p)
}

// Forget drops all cgroups for which gone returns true.
func (m *Meter) Forget(gone func(cgroup.Path) bool) {
	maps.DeleteFunc(m.appeared, func(p cgroup.Path, _ time.Time) bool { return gone(p) })
	maps.DeleteFunc(m.confined, func(p cgroup.Path, _ exposure) bool { return gone(p) })
	for p := range m.unfinished {
		if gone(p) {
			m.finish(p, false)
		}
	}
}

// NotePersisted finishes the start of a cgroup whose CPUs the daemon has persisted: a later
// answer of systemd does not show which CPUs the OCI runtime had.
func (m *Meter) NotePersisted(p cgroup.Path) { m.finish(p, false) }

// finish counts a start; had reports whether the OCI runtime had the CPUs before the entrypoint.
func (m *Meter) finish(p cgroup.Path, had bool) {
	start, known := m.unfinished[p]
	if !known {
		return
	}
	delete(m.unfinished, p)
	if had {
		start.took = exposure{}
	}
	m.observe(start.way, start.took)
}

func (m *Meter) observe(way telemetry.Way, took exposure) {
	if m.total[way] == nil {
		all := telemetry.NewPlacements()
		m.total[way] = &all
	}
	m.total[way].Elapsed.Observe(took.elapsed.Seconds())
	m.total[way].Used.Observe(took.used.Seconds())
}

// Placements returns the counted placements, by the way on which the daemon learned of them.
func (m *Meter) Placements() map[telemetry.Way]telemetry.Placements {
	all := make(map[telemetry.Way]telemetry.Placements, len(m.total))
	for way, p := range m.total {
		all[way] = telemetry.Placements{Elapsed: p.Elapsed.Clone(), Used: p.Used.Clone()}
	}
	return all
}

// NoteFirstReads records the exposure of containers at their first reading, before a write.
func (m *Meter) NoteFirstReads(want []cgroup.Target) {
	for _, t := range want {
		e := m.objects.Container(t.Container)
		if e == nil || !e.Exposure().IsUnseen() {
			continue
		}
		c := m.cache.Current(t.Path)
		if !c.Exists {
			continue
		}
		x := e.Exposure()
		if x.NoteFirstReading(c.Effective.IsSubsetOf(t.CPUs), !c.CPUs.IsEmpty()); x.IsExposed() {
			continue
		}
		took, confined := m.confined[t.Path]
		way := x.Way()
		if confined {
			way = cmp.Or(way, telemetry.WayInotify)
		}
		m.observe(cmp.Or(way, telemetry.WayEvent), took)
		m.Gone(t.Path)
	}
}

// NoteUnidentified records the exposure of a cgroup that is in the shared pool first.
func (m *Meter) NoteUnidentified(p cgroup.Path, cpus cpuset.Set, now time.Time) {
	if _, known := m.confined[p]; known {
		return
	}
	if c := m.cache.Current(p); c.Exists && !m.cache.IsStale(p) && !cpus.IsEmpty() && c.Effective.IsSubsetOf(cpus) {
		m.confined[p] = m.exposureOf(p, now, now)
	}
}

// ObserveStarts counts the containers of want that are in their pool now.
func (m *Meter) ObserveStarts(want []cgroup.Target, now time.Time) {
	for _, t := range want {
		e := m.objects.Container(t.Container)
		if e == nil || !e.Exposure().IsExposed() {
			continue
		}
		if c := m.cache.Current(t.Path); !c.Exists || m.cache.IsStale(t.Path) || !c.Effective.IsSubsetOf(t.CPUs) {
			continue
		}
		x := e.Exposure()
		wasMade := x.End()
		took := m.exposureOf(t.Path, x.Began(), now)
		m.Gone(t.Path)
		if wasMade && m.systemd {
			m.unfinished[t.Path] = unfinishedStart{way: x.Way(), took: took, cpus: t.CPUs}
			continue
		}
		m.observe(cmp.Or(x.Way(), telemetry.WayEvent), took)
	}
}

// Observe takes the results of a pass: the containers that are in their pool now, and the CPUs of
// unidentified containers. isAnswered reports whether systemd has answered about a cgroup.
func (m *Meter) Observe(targets []cgroup.Target, isAnswered func(cgroup.Path) bool, unidentified map[cgroup.Path]cpuset.Set, now time.Time) {
	m.ObserveStarts(targets, now)
	m.FinishStarts(isAnswered)
	for p, cpus := range unidentified {
		m.NoteUnidentified(p, cpus, now)
	}
}

// FinishStarts counts the unfinished starts for which systemd has answered.
func (m *Meter) FinishStarts(isAnswered func(cgroup.Path) bool) {
	for p, start := range m.unfinished {
		unit := m.cache.Current(p).Unit
		answered := unit.Known || isAnswered(p)
		if answered && !m.cache.Writes.IsBusy(p) {
			m.finish(p, unit.Known && !unit.CPUs.IsEmpty() && unit.CPUs.IsSubsetOf(start.cpus))
		}
	}
}

// exposureOf starts at created if the daemon has not seen the cgroup appear.
func (m *Meter) exposureOf(p cgroup.Path, created, now time.Time) exposure {
	since, seen := m.appeared[p]
	if !seen {
		since = created
	}
	took := exposure{elapsed: max(now.Sub(since), 0)}
	if used, err := m.usage(p); err == nil {
		took.used = used
	}
	return took
}
