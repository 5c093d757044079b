package daemon

import (
	"maps"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// exposureMeter measure how long containers are outside their pool before they are placed
// for the first time. Only those count that were made while the daemon watched.
type exposureMeter struct {
	// appeared are the cgroups of containers that have been seen to appear and not to
	// be placed.
	appeared map[cgroup.Path]time.Time
	// confined are those that waited in the shared pool until the runtime told of them.
	confined map[cgroup.Path]exposure
	// unfinished are those that are placed, and of which systemd has not told yet what they
	// were made with.
	unfinished map[cgroup.Path]unfinishedStart
	total      map[telemetry.Way]*telemetry.Placements
}

// exposure is what a container could do before it was placed.
type exposure struct {
	elapsed, used time.Duration
}

// unfinishedStart is a container whose cgroup was there before its CPUs were in it, although
// the runtime had them on record before. The OCI runtime writes what it was told into
// the cgroup before it lets the entrypoint begin. But it may have been told before the
// record was changed: then nobody but the daemon has written the CPUs, and systemd
// does not know of them.
type unfinishedStart struct {
	way  telemetry.Way
	took exposure // if it was not told
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

// cgroupCreated notes when a cgroup has come, vanish that it has gone.
func (x *exposureMeter) cgroupCreated(p cgroup.Path, at time.Time) { x.appeared[p] = at }

func (x *exposureMeter) cgroupRemoved(p cgroup.Path) {
	x.finish(p, false)
	delete(x.appeared, p)
	delete(x.confined, p)
}

// forget drops what has gone without a word.
func (x *exposureMeter) forget(gone func(cgroup.Path) bool) {
	maps.DeleteFunc(x.appeared, func(p cgroup.Path, _ time.Time) bool { return gone(p) })
	maps.DeleteFunc(x.confined, func(p cgroup.Path, _ exposure) bool { return gone(p) })
	for p := range x.unfinished {
		if gone(p) {
			x.finish(p, false)
		}
	}
}

// finish observes a container that was being made: it was inside its pool before its
// entrypoint began if the OCI runtime had its CPUs. Where that is not known, it was not.
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

// noteFirstReads looks at the cgroups that have been read for the first time, before
// anything is written to them.
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

// observeExposures observes those that are inside their pool by now, or wait in the shared one.
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

// observeStarts observes those of some targets that are inside their pool by now.
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

// finishStarts settles those of which systemd has told what they were made with. What the
// daemon has it record meanwhile would be no evidence: see onWritten.
func (l *Loop) finishStarts() {
	for p, m := range l.exposureMeter.unfinished {
		unit := l.cache.Current(p).Unit
		answered := unit.Known || l.status.unitAsked[p] && !l.status.unitAwaited[p]
		if answered && !l.cache.IsBusy(p) {
			l.exposureMeter.finish(p, unit.Known && !unit.CPUs.IsEmpty() && unit.CPUs.IsSubsetOf(m.cpus))
		}
	}
}

// exposureOf is what has become of a cgroup until now. Who was not seen to appear may
// have been there since its creation.
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
