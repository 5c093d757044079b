package daemon

import (
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// treeWatched is the event of a new watcher, or of an error without one.
type treeWatched struct {
	watcher *cgroup.Watcher
	err     error
}

func (e treeWatched) apply(l *Loop) {
	l.watch.Use(e.watcher, e.err)
	l.partitions.RecheckAll()
}

// threadsScanned is the result of a scan of a container's threads.
type threadsScanned struct{ kernelstate.ThreadsFound }

func (threadsScanned) ownResult() {}

func (threadsScanned) scope(*Loop) scope { return scopeAnswer }

func (e threadsScanned) apply(l *Loop) { l.cache.NoteThreads(e.ThreadsFound) }

// watchAll updates the watched cgroups after a pass.
func (l *Loop) watchAll() {
	var parking []cgroup.Path
	if !l.partitions.Parked().IsEmpty() {
		parking = []cgroup.Path{cgroup.Parking, cgroup.ParkingTop}
	}
	l.watch.Update(l.status.targets, l.inventory, l.partitions.Enabled(), parking...)
}

// takeNotices handles the notices of the watcher, and schedules the passes that they need. A
// notice of an own write needs none.
func (l *Loop) takeNotices() {
	if l.watch.Watcher() == nil {
		return
	}
	changes, err := l.watch.Watcher().Take(l.settings.Config.ResyncPeriod)
	if err != nil {
		l.schedule.add(scopeAll)
	}
	for _, c := range changes {
		switch c.Kind {
		case cgroup.Overflow:
			l.log.Warn("notices about cgroups are lost; reading all of them again")
			l.cache.InvalidateAll()
			l.partitions.RecheckAll()
			l.watch.ForgetPods()
			l.list()
			l.schedule.add(scopeAll)
		case cgroup.Flooded:
			l.schedule.add(scopeAll) // reports the problem
		case cgroup.Written:
			breaks := l.partitions.NoteWrite(c.Path, c.Name) // before the repair: a list may have shrunk a partition
			if l.noticeWrite(c.Path.Scope(), c.At) {
				l.schedule.addRepair(c.Path.Scope())
			}
			if breaks || l.others.NoteWrite(c.Path) {
				l.schedule.add(scopeAll)
			}
		case cgroup.Appeared:
			p := c.Path.Join(c.Name)
			if inventory.IDAt(p, l.Driver) != "" {
				l.exposureMeter.Appeared(p, c.At)
			}
			l.partitions.NoteCgroup(p, true)
			l.schedule.add(l.noticeChild(p, true))
		case cgroup.Gone:
			p := c.Path.Join(c.Name)
			l.exposureMeter.Gone(p)
			l.partitions.NoteCgroup(p, false)
			l.removed.Notice(p)
			l.schedule.add(l.noticeChild(p, false))
		}
	}
	if !l.watch.Watcher().Settled() {
		l.schedule.add(scopeOne) // the pass sets the missing watches
	}
	if l.schedule.soon && l.hasWaiting() {
		l.schedule.add(scopeAll)
	}
}

// noticeWrite compares a cgroup with its last reading after a notice of a write. It reports
// whether the cgroup must be read and repaired.
func (l *Loop) noticeWrite(p cgroup.Path, at time.Time) bool {
	c := l.cache.Current(p)
	if !l.cache.Has(p) || l.cache.IsStale(p) {
		// The next pass reads the cgroup if it is a target.
		l.partitions.RecheckNear(p)
		return c.Exists && !l.cache.IsBusy(p)
	}
	if !c.Exists && l.inventory.IsBeingMade(l.inventory.ContainerAt(p)) {
		return false
	}
	if c.Exists {
		st, err := l.cache.State(p)
		if err == nil && l.cache.Expects(st) {
			moved, ended := l.cache.SetEffective(p, st.Effective), l.partitions.NoteState(p, st.Partition)
			return moved || ended
		}
	}
	l.drifts.Notice(p, at)
	l.cache.Invalidate(p)
	l.partitions.Recheck(p) // the cpuset of a sibling can break a partition
	return true
}

// noticeChild handles a cgroup that has appeared (there) or disappeared. A known cgroup is only
// read again, because the runtime reports its container.
func (l *Loop) noticeChild(p cgroup.Path, there bool) scope {
	if auxiliary.IsPod(p) {
		if l.watch.NotePod(p, there) {
			l.watchAll()
		}
	}
	scope, isNew := p.Scope(), l.auxiliary.Note(p, there)
	if l.cache.Has(scope) || l.removed.IsMissing(scope) {
		l.cache.Invalidate(scope)
		if !there || l.inventory.IsBeingMade(l.inventory.ContainerAt(scope)) {
			return scopeOne // it is gone, or no process runs in it before the runtime asks
		}
		return scopeAll
	}
	if there {
		id := l.unidentified.Track(p)
		if id != "" && l.status.listed { // otherwise the first listing follows
			l.fetchContainer(id)
			l.fetchPod(id) // it may be a sandbox
		}
		if id != "" || isNew {
			return scopeAll
		}
	} else {
		l.unidentified.Forget(p)
		if l.partitions.Unblocks(p) {
			return scopeAll
		}
	}
	return scopeNone
}
