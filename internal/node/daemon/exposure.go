package daemon

import (
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// exposureMeter measures the time and the CPU time of containers outside their pool before
// their first placement. It counts only containers created while the daemon runs.
type exposureMeter struct {
	appeared   map[cgroup.Path]time.Time       // cgroups that are not placed yet, with the time of their creation
	confined   map[cgroup.Path]exposure        // unidentified cgroups in the shared pool
	unfinished map[cgroup.Path]unfinishedStart // placed cgroups without an answer of systemd
	total      map[telemetry.Way]*telemetry.Placements
}

// exposure holds the time and the CPU time of a container before its placement.
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

func newExposureMeter() exposureMeter {
	return exposureMeter{
		appeared:   make(map[cgroup.Path]time.Time),
		confined:   make(map[cgroup.Path]exposure),
		unfinished: make(map[cgroup.Path]unfinishedStart),
		total:      make(map[telemetry.Way]*telemetry.Placements),
	}
}

// cgroupCreated records when a cgroup was created.
func (x *exposureMeter) cgroupCreated(p cgroup.Path, at time.Time) { x.appeared[p] = at }

// cgroupRemoved forgets a cgroup.
func (x *exposureMeter) cgroupRemoved(p cgroup.Path) {
	x.finish(p, false)
	delete(x.appeared, p)
	delete(x.confined, p)
}

// forget drops all cgroups for which gone returns true.
func (x *exposureMeter) forget(gone func(cgroup.Path) bool) {
	maps.DeleteFunc(x.appeared, func(p cgroup.Path, _ time.Time) bool { return gone(p) })
	maps.DeleteFunc(x.confined, func(p cgroup.Path, _ exposure) bool { return gone(p) })
	for p := range x.unfinished {
		if gone(p) {
			x.finish(p, false)
		}
	}
}

// finish counts an unfinished start. had reports whether the OCI runtime had the CPUs, so that
// the container was in its pool before its entrypoint started.
func (x *exposureMeter) finish(p cgroup.Path, had bool) {
	m, known := x.unfinished[p]
	if !known {
		return
	}
	delete(x.unfinished, p)
	if had {
		m.took = exposure{}
	}
	x.observe(m.way, m.took)
}

func (x *exposureMeter) observe(way telemetry.Way, took exposure) {
	if x.total[way] == nil {
		all := telemetry.NewPlacements()
		x.total[way] = &all
	}
	x.total[way].Elapsed.Observe(took.elapsed.Seconds())
	x.total[way].Used.Observe(took.used.Seconds())
}

func (x *exposureMeter) view() map[telemetry.Way]telemetry.Placements {
	all := make(map[telemetry.Way]telemetry.Placements, len(x.total))
	for way, p := range x.total {
		all[way] = telemetry.Placements{Elapsed: p.Elapsed.Clone(), Used: p.Used.Clone()}
	}
	return all
}

// noteFirstReads records the exposure of containers whose cgroup was read for the first time,
// before a write changes it.
func (l *Loop) noteFirstReads(want []cgroup.Target) {
	for _, t := range want {
		e := l.inventory.Container(t.Container)
		if e == nil || !e.IsUnseen() {
			continue
		}
		c := l.cache.Current(t.Path)
		if !c.Exists {
			continue
		}
		if e.NoteFirstReading(c.Effective.IsSubsetOf(t.CPUs), !c.CPUs.IsEmpty()); e.IsExposed() {
			continue
		}
		took, confined := l.exposureMeter.confined[t.Path]
		way := e.Way()
		if confined && way == "" {
			way = telemetry.WayInotify
		}
		l.exposureMeter.observe(wayOr(way), took)
		l.exposureMeter.cgroupRemoved(t.Path)
	}
}

func wayOr(way telemetry.Way) telemetry.Way {
	if way == "" {
		return telemetry.WayEvent
	}
	return way
}

// observeExposures counts the containers that are in their pool now, and records unidentified
// containers in the shared pool.
func (l *Loop) observeExposures(now time.Time) {
	l.observeStarts(l.status.targets, now)
	l.finishStarts()
	for p, s := range l.unidentified {
		if _, known := l.exposureMeter.confined[p]; known {
			continue
		}
		if c := l.cache.Current(p); c.Exists && !l.cache.IsStale(p) && !s.cpus.IsEmpty() && c.Effective.IsSubsetOf(s.cpus) {
			l.exposureMeter.confined[p] = l.exposureOf(p, now, now)
		}
	}
}

// observeStarts counts the containers of want that are in their pool now.
func (l *Loop) observeStarts(want []cgroup.Target, now time.Time) {
	for _, t := range want {
		e := l.inventory.Container(t.Container)
		if e == nil || !e.IsExposed() {
			continue
		}
		if c := l.cache.Current(t.Path); !c.Exists || l.cache.IsStale(t.Path) || !c.Effective.IsSubsetOf(t.CPUs) {
			continue
		}
		wasMade := e.EndExposure()
		took := l.exposureOf(t.Path, e.Began(), now)
		l.exposureMeter.cgroupRemoved(t.Path)
		if wasMade && l.Units != nil {
			l.exposureMeter.unfinished[t.Path] = unfinishedStart{way: e.Way(), took: took, cpus: t.CPUs}
			continue
		}
		l.exposureMeter.observe(wayOr(e.Way()), took)
	}
}

// finishStarts counts the unfinished starts for which systemd has answered. A record by the
// daemon itself proves nothing, so written.apply finishes the start first.
func (l *Loop) finishStarts() {
	for p, m := range l.exposureMeter.unfinished {
		unit := l.cache.Current(p).Unit
		answered := unit.Known || l.status.unitAsked[p] && !l.status.unitAwaited[p]
		if answered && !l.cache.IsBusy(p) {
			l.exposureMeter.finish(p, unit.Known && !unit.CPUs.IsEmpty() && unit.CPUs.IsSubsetOf(m.cpus))
		}
	}
}

// exposureOf returns the exposure of a cgroup until now. It starts at created if the daemon has
// not seen the cgroup appear.
func (l *Loop) exposureOf(p cgroup.Path, created, now time.Time) exposure {
	since, seen := l.exposureMeter.appeared[p]
	if !seen {
		since = created
	}
	took := exposure{elapsed: max(now.Sub(since), 0)}
	if used, err := l.Cgroups.Usage(p); err == nil {
		took.used = used
	}
	return took
}
