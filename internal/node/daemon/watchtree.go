package daemon

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// treeWatch is the owner's ear at the cgroups: what others write to those that are
// placed, and which ones come and go in pods.
type treeWatch struct {
	wake    chan struct{} // holds one token while there is something to take
	watcher *cgroup.Watcher
	err     error // why not all that should be is watched
	// slices are the pods' that have shown up, known to the runtime or not.
	slices map[cgroup.Path]bool
	// set is what the watcher was told last, and what that was made of.
	set watchedSet
}

// watchedSet is what is watched for targets and slices of pods.
type watchedSet struct {
	targets, pods  []cgroup.Path
	files, parents []cgroup.Path
}

// of makes the set for other targets and slices, unless they are the same, as after nearly all passes.
func (s *watchedSet) of(targets []cgroup.Target, pods []cgroup.Path) {
	same := func(p cgroup.Path, t cgroup.Target) bool { return p == t.Path }
	if slices.EqualFunc(s.targets, targets, same) && slices.Equal(s.pods, pods) {
		return
	}
	s.targets = s.targets[:0]
	for i := range targets {
		s.targets = append(s.targets, targets[i].Path)
	}
	s.pods = pods
	s.files, s.parents = watchSet(targets, pods)
}

func newTreeWatch() treeWatch {
	return treeWatch{wake: make(chan struct{}, 1), slices: make(map[cgroup.Path]bool)}
}

// state is how the source fares.
func (w *treeWatch) state() telemetry.SourceState {
	if w.watcher == nil || w.err != nil {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
}

// watchTree keeps a watcher until ctx ends.
func (l *Loop) watchTree(ctx context.Context) {
	keepTrying(ctx, func() error {
		w, err := l.Cgroups.Watch(func() {
			select {
			case l.watch.wake <- struct{}{}:
			default:
			}
		})
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
		l.log.Warn("watch cgroups; until it works again, what others write is found by the resync", "error", err)
	})
}

// treeWatched is a watcher that begins, or why there is none.
type treeWatched struct {
	watcher *cgroup.Watcher
	err     error
}

func (treeWatched) scope(*Loop) scope { return scopeAll }

func (e treeWatched) apply(l *Loop) {
	// What happened before is not known; the first Set tells of everything.
	l.watch.watcher, l.watch.err = e.watcher, e.err
	clear(l.watch.slices)
	l.cache.InvalidatePartitions() // nor what has become of partitions
}

// told says that writes to a cgroup, and to crun's in it, are told of. Where a watch could not be made
// none is believed: that a cgroup was made anew is noticed by the watch of the one around it.
func (w *treeWatch) told(s cgroup.State) bool {
	if w.watcher == nil || w.err != nil {
		return false
	}
	files, _ := w.watcher.Hears(s.Path)
	return files && (s.Inner == nil || w.told(*s.Inner))
}

// watchAll tells the watcher which cgroups matter after a pass.
func (l *Loop) watchAll() {
	if l.watch.watcher == nil {
		return
	}
	pods := slices.AppendSeq(l.inventory.PodSlices(), maps.Keys(l.watch.slices))
	slices.Sort(pods)
	set := &l.watch.set
	set.of(l.status.targets, slices.Compact(pods))
	files := set.files
	if on, _ := l.partitions(); on { // lists of pods, and of what these are in, can be in the way of partitions
		files = append(slices.Clip(files), set.parents...)
	}
	if !l.isolation.parking.cpus.IsEmpty() {
		files = append(slices.Clip(files), cgroup.Parking, cgroup.ParkingTop)
	}
	err := l.watch.watcher.Set(files, set.parents)
	if err != nil && (l.watch.err == nil || l.watch.err.Error() != err.Error()) {
		l.log.Warn("not all cgroups are watched; what others write to the rest is found by the resync", "error", err)
	}
	l.watch.err = err
}

// watchSet returns the cgroups of which the files matter, and those of which the
// children do: these are the kubelet's, in which pods appear, and the pods', in which
// containers do.
func watchSet(targets []cgroup.Target, pods []cgroup.Path) (files, parents []cgroup.Path) {
	files, parents = make([]cgroup.Path, 0, 2*len(targets)), make([]cgroup.Path, 0, len(pods)+12)
	for i := range targets {
		t := &targets[i]
		files = append(files, t.Path)
		if inner, ok := t.Path.Inner(); ok && t.Unit == "" {
			files = append(files, inner) // crun's; it may come later
		}
	}
	// The kubelet's with the default --cgroup-root and with that of kind.
	tops := map[cgroup.Path]bool{
		"kubepods.slice": true, "kubepods": true,
		"kubelet.slice/kubelet-kubepods.slice": true, "kubelet/kubepods": true,
	}
	for _, slice := range pods {
		parents = append(parents, slice)
		for p := slice.Parent(); p != ""; p = p.Parent() {
			if name := strings.TrimSuffix(p.Base(), ".slice"); name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
				tops[p] = true
			}
		}
	}
	for top := range tops {
		parents = append(parents, top)
		for _, class := range []string{"burstable", "besteffort"} {
			name := class
			if base, ok := strings.CutSuffix(top.Base(), ".slice"); ok {
				name = base + "-" + class + ".slice"
			}
			parents = append(parents, top.Join(name))
		}
	}
	slices.Sort(parents) // what has not changed is to look the same
	return files, parents
}

// takeNotices takes over what the watcher has told, and asks for what it takes: an echo of the
// daemon's own writes takes nothing.
func (l *Loop) takeNotices() {
	if l.watch.watcher == nil {
		return
	}
	changes, err := l.watch.watcher.Take()
	if err != nil {
		l.schedule.add(scopeAll)
	}
	for _, c := range changes {
		switch c.Kind {
		case cgroup.Overflow:
			l.log.Warn("changes of cgroups have been lost; all of them are read again")
			l.cache.InvalidateAll()
			clear(l.watch.slices)
			l.list()
			l.schedule.add(scopeAll)
		case cgroup.Written:
			lists := l.noticeList(c.Path, c.Name) // also where the cgroup is repaired at once: a list may have shrunk a partition
			if l.noticeWrite(c.Path.Scope(), c.At) {
				l.schedule.written(c.Path.Scope())
			}
			if lists || l.noticeParking(c.Path, c.Name) {
				l.schedule.add(scopeAll)
			}
		case cgroup.Appeared:
			p := c.Path.Join(c.Name)
			if inventory.IDAt(p, l.Driver) != "" {
				l.exposureMeter.cgroupCreated(p, c.At)
			}
			l.isolation.memory.Appeared(p)
			l.schedule.add(l.noticeChild(p, true))
		case cgroup.Gone:
			p := c.Path.Join(c.Name)
			l.exposureMeter.cgroupRemoved(p)
			l.isolation.memory.Gone(p)
			l.departed[p] = true
			l.schedule.add(l.noticeChild(p, false))
		}
	}
	if !l.watch.watcher.Settled() {
		l.schedule.add(scopeOne) // watches have gone with cgroups, or without them: the pass makes them again
	}
	if l.schedule.soon && l.hasWaiting() {
		l.schedule.add(scopeAll)
	}
}

// noticeWrite compares what a cgroup has with what was read last.
func (l *Loop) noticeWrite(p cgroup.Path, at time.Time) bool {
	c := l.cache.Current(p)
	if !l.cache.Has(p) || l.cache.IsStale(p) {
		// It is read in the next pass, if anybody needs it; at once, where it is placed.
		if l.beside(p) {
			l.recheckPartitions(p)
		}
		return c.Exists && !l.cache.IsBusy(p)
	}
	if !c.Exists && l.inventory.IsBeingMade(l.inventory.ContainerAt(p)) {
		return false // it is being made
	}
	if c.Exists {
		st, err := l.Cgroups.Read(p)
		if err == nil && l.cache.Expects(st) {
			moved, ended := l.cache.SetEffective(p, st.Effective), l.endedUnseen(p, st.Partition)
			return moved || ended
		}
	}
	l.drifts.noteNotice(p, at)
	l.cache.Invalidate(p)
	l.recheckPartitions(p) // a sibling's cpuset, too, can break a partition
	return true
}

// endedUnseen says that a cgroup is a partition by the last look at partitions, and is none
// any more: somebody has ended it before the rest of it was read.
func (l *Loop) endedUnseen(p cgroup.Path, is cgroup.PartitionState) bool {
	w, settled := l.isolation.settled[p]
	if !settled || l.isolation.outcomes[p].Phase != cgroup.PartitionInForce || is.Is(w.Type) {
		return false
	}
	l.recheckPartitions(p)
	return true
}

// noticeChild is told of a cgroup that has come or gone. What the runtime will tell,
// too, is only looked at again.
func (l *Loop) noticeChild(p cgroup.Path, there bool) scope {
	if _, _, inPod := cgroup.PodOf(p.Parent()); !inPod {
		if _, _, isPod := cgroup.PodOf(p); isPod {
			l.noticePod(p, there)
		}
	}
	scope := p.Scope()
	if l.cache.Has(scope) || l.status.removed[scope] != "" {
		l.cache.Invalidate(scope)
		if !there || l.inventory.IsBeingMade(l.inventory.ContainerAt(scope)) {
			return scopeOne // it is over, or the runtime asks before anything runs in it
		}
		return scopeAll
	}
	if there && l.trackCgroup(p) {
		return scopeAll
	}
	if !there {
		delete(l.unidentified, p)
		if l.outOfTheWay(p) {
			return scopeAll
		}
	}
	return scopeNone
}

// noticePod follows the cgroups of pods: their containers appear in them.
func (l *Loop) noticePod(p cgroup.Path, there bool) {
	if !there {
		delete(l.watch.slices, p)
		return
	}
	if !l.watch.slices[p] {
		l.watch.slices[p] = true
		l.watchAll() // at once: its first container is about to come
	}
}
