package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// treeWatch watches the cgroup tree for writes to placed cgroups, and for cgroups that appear
// and disappear in pods.
type treeWatch struct {
	wake    chan struct{} // holds one token while there are notices to take
	watcher *cgroup.Watcher
	err     error // why some cgroups are not watched
	// slices are the slices of pods that have appeared, reported by the runtime or not.
	slices    map[cgroup.Path]bool
	auxiliary *auxiliary.Cgroups // in the slices
	set       kernelstate.WatchSet
}

func newTreeWatch(d cgroup.Driver) treeWatch {
	return treeWatch{wake: make(chan struct{}, 1), slices: make(map[cgroup.Path]bool), auxiliary: auxiliary.New(d)}
}

// state returns the state of the watcher as a source.
func (w *treeWatch) state() telemetry.SourceState {
	if w.watcher == nil || w.err != nil {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}

// watchTree runs a watcher until ctx ends. It starts another one after an error.
func (l *Loop) watchTree(ctx context.Context) {
	actor.KeepTrying(ctx, func() error {
		w, err := l.Cgroups.Watch(func() {
			select {
			case l.watch.wake <- struct{}{}:
			default:
			}
		}, l.now)
		if err != nil {
			l.box.Post(treeWatched{err: err})
			return err
		}
		l.box.Post(treeWatched{watcher: w})
		select {
		case <-ctx.Done():
		case <-w.Ended():
		}
		err = w.Close()
		if ctx.Err() == nil {
			err = errors.Join(w.Err(), err)
			l.box.Post(treeWatched{err: err})
		}
		return err
	}, func(err error) {
		l.log.Warn("watch cgroups; until it works again, the resync finds external writes", "error", err)
	})
}

// treeWatched is the event of a new watcher, or of an error without one.
type treeWatched struct {
	watcher *cgroup.Watcher
	err     error
}

func (e treeWatched) apply(l *Loop) {
	// Earlier notices are lost. The first Set reports all watched cgroups as changed.
	l.watch.watcher, l.watch.err = e.watcher, e.err
	clear(l.watch.slices)
	l.partitions.RecheckAll()
}

// threadsScanned is the result of a scan of a container's threads.
type threadsScanned struct{ kernelstate.ThreadsFound }

func (threadsScanned) ownResult() {}

func (threadsScanned) scope(*Loop) scope { return scopeAnswer }

func (e threadsScanned) apply(l *Loop) { l.cache.NoteThreads(e.ThreadsFound) }

// isWatched reports whether the watcher reports writes to a cgroup and to crun's cgroup in it. If
// any watch is missing, it reports false for all: the watch of the parent shows that a cgroup
// was replaced.
func (w *treeWatch) isWatched(s cgroup.State) bool {
	if w.watcher == nil || w.err != nil {
		return false
	}
	files, _ := w.watcher.Reports(s.Path)
	return files && (s.Inner == nil || w.isWatched(*s.Inner))
}

// watchAll updates the watched cgroups after a pass.
func (l *Loop) watchAll() {
	if l.watch.watcher == nil {
		return
	}
	pods := slices.AppendSeq(l.inventory.PodSlices(), maps.Keys(l.watch.slices))
	slices.Sort(pods)
	l.watch.set.Update(l.status.targets, slices.Compact(pods))
	files, parents := l.watch.set.Files(), l.watch.set.Parents()
	if l.partitions.Enabled() { // the exclusive lists of pods and their parents can prevent partitions
		files = append(files, parents...)
	}
	if !l.partitions.Parked().IsEmpty() {
		files = append(files, cgroup.Parking, cgroup.ParkingTop)
	}
	err := l.watch.watcher.Set(files, parents)
	if err != nil && (l.watch.err == nil || l.watch.err.Error() != err.Error()) {
		l.log.Warn("some cgroups are not watched; the resync finds external writes to them", "error", err)
	}
	l.watch.err = err
}

// takeNotices handles the notices of the watcher, and schedules the passes that they need. A
// notice of an own write needs none.
func (l *Loop) takeNotices() {
	if l.watch.watcher == nil {
		return
	}
	changes, err := l.watch.watcher.Take(l.settings.Config.ResyncPeriod)
	if err != nil {
		l.schedule.add(scopeAll)
	}
	for _, c := range changes {
		switch c.Kind {
		case cgroup.Overflow:
			l.log.Warn("notices about cgroups are lost; reading all of them again")
			l.cache.InvalidateAll()
			l.partitions.RecheckAll()
			clear(l.watch.slices)
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
			l.departed[p] = true
			l.schedule.add(l.noticeChild(p, false))
		}
	}
	if !l.watch.watcher.Settled() {
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
		st, err := l.Cgroups.Read(p)
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
		l.noticePod(p, there)
	}
	scope, isNew := p.Scope(), l.watch.auxiliary.Note(p, there)
	if l.cache.Has(scope) || l.status.removed[scope] != "" {
		l.cache.Invalidate(scope)
		if !there || l.inventory.IsBeingMade(l.inventory.ContainerAt(scope)) {
			return scopeOne // it is gone, or no process runs in it before the runtime asks
		}
		return scopeAll
	}
	if there && (l.trackCgroup(p) || isNew) {
		return scopeAll
	}
	if !there {
		delete(l.unidentified, p)
		if l.partitions.Unblocks(p) {
			return scopeAll
		}
	}
	return scopeNone
}

// noticePod adds or removes the slice of a pod, in which containers appear.
func (l *Loop) noticePod(p cgroup.Path, there bool) {
	if !there {
		delete(l.watch.slices, p)
		return
	}
	if !l.watch.slices[p] {
		l.watch.slices[p] = true
		l.watchAll() // before its first container appears
	}
}
