// Package treewatch decides which cgroups are watched: for writes to their files, and for cgroups
// that appear and disappear in the slices of pods. One goroutine uses a [Tree].
package treewatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Tree holds the watched cgroups.
type Tree struct {
	log     *slog.Logger
	wake    chan struct{} // holds one token while there are notices to take
	watcher *cgroup.Watcher
	err     error                // why some cgroups are not watched
	slices  map[cgroup.Path]bool // slices of pods that have appeared, reported by the runtime or not
	set     set
}

// New returns a Tree without a watcher.
func New(log *slog.Logger) *Tree {
	return &Tree{log: log, wake: make(chan struct{}, 1), slices: make(map[cgroup.Path]bool)}
}

// Wake returns a channel that holds a token while there are notices to take.
func (w *Tree) Wake() <-chan struct{} { return w.wake }

// Open starts a watcher.
func (w *Tree) Open(cgroups *cgroup.FS, now func() time.Time) (*cgroup.Watcher, error) {
	return cgroups.Watch(func() {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}, now)
}

// Run runs a watcher until ctx ends. It starts another one after an error. It passes each watcher
// to changed, and nil with the error at the end of a watcher. It runs in a goroutine of its own.
func (w *Tree) Run(ctx context.Context, cgroups *cgroup.FS, now func() time.Time, changed func(*cgroup.Watcher, error)) {
	actor.KeepTrying(ctx, func() error {
		watcher, err := w.Open(cgroups, now)
		changed(watcher, err)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-watcher.Ended():
		}
		err = watcher.Close()
		if ctx.Err() == nil {
			err = errors.Join(watcher.Err(), err)
			changed(nil, err)
		}
		return err
	}, func(err error) {
		w.log.Warn("watch cgroups; until it works again, the resync finds external writes", "error", err)
	})
}

// Use replaces the watcher. Notices are lost, so all watched cgroups count as changed.
func (w *Tree) Use(watcher *cgroup.Watcher, err error) {
	w.watcher, w.err = watcher, err
	w.ForgetPods()
}

// Watcher returns the watcher, nil while none runs.
func (w *Tree) Watcher() *cgroup.Watcher { return w.watcher }

// State returns the state of the watcher as a source.
func (w *Tree) State() telemetry.SourceState {
	return telemetry.LostIf(w.watcher == nil || w.err != nil)
}

// IsWatched reports whether the watcher reports writes to a cgroup and to crun's cgroup in it. If
// any watch is missing, it reports false for all: the watch of the parent shows that a cgroup
// was replaced.
func (w *Tree) IsWatched(s cgroup.State) bool {
	if w.State() != telemetry.SourceOK {
		return false
	}
	files, _ := w.watcher.Reports(s.Path)
	return files && (s.Inner == nil || w.IsWatched(*s.Inner))
}

// Update watches the targets and the slices of pods. With lists, it also watches the exclusive
// lists of the slices and their parents, which can prevent partitions. It watches more, too.
func (w *Tree) Update(targets []cgroup.Target, m *inventory.Objects, lists bool, more ...cgroup.Path) {
	if w.watcher == nil {
		return
	}
	pods := slices.AppendSeq(m.PodSlices(), maps.Keys(w.slices))
	slices.Sort(pods)
	w.set.update(targets, slices.Compact(pods))
	files, parents := slices.Clip(w.set.files), slices.Clip(w.set.parents)
	if lists {
		files = append(files, parents...)
	}
	err := w.watcher.Set(append(files, more...), parents)
	if err != nil && (w.err == nil || w.err.Error() != err.Error()) {
		w.log.Warn("some cgroups are not watched; the resync finds external writes to them", "error", err)
	}
	w.err = err
}

// NotePod records that the slice of a pod has appeared (there) or disappeared. It reports whether
// the slice is new, and needs a watch before its first container appears.
func (w *Tree) NotePod(p cgroup.Path, there bool) bool {
	isNew := there && !w.slices[p]
	if there {
		w.slices[p] = true
	} else {
		delete(w.slices, p)
	}
	return isNew
}

// ForgetPods forgets the slices that have appeared, after a loss of notices.
func (w *Tree) ForgetPods() { clear(w.slices) }

// codeNoticeFlood is the code of a cgroup in which processes write too often for a watch.
const codeNoticeFlood pools.Code = "NoticeFlood"

// FloodReason returns the problem of a cgroup that the watcher has muted.
func FloodReason(p cgroup.Path) pools.Reason {
	return pools.Reason{Code: codeNoticeFlood, Text: fmt.Sprintf(
		"%s: processes write the files of this cgroup too often; the daemon reads it once a second instead of watching it. Stop the processes", p)}
}

// set holds the cgroups to watch. The zero value is empty.
type set struct {
	targets, pods []cgroup.Path // of which it was made
	// files holds the cgroups with watched files: the targets, crun's cgroups in them, and the root of the
	// kubelet's system partition, which need not exist.
	files []cgroup.Path
	// parents holds the cgroups with watched children, sorted: the cgroups of the kubelet, in which pods
	// appear, and the slices of pods, in which containers appear.
	parents []cgroup.Path
}

// update makes the set for targets and for the slices of pods, sorted. It does nothing if
// both are unchanged, as after most passes. Without pods, it holds the cgroups of the kubelet.
func (s *set) update(targets []cgroup.Target, pods []cgroup.Path) {
	same := func(p cgroup.Path, t cgroup.Target) bool { return p == t.Path }
	if s.parents != nil && slices.EqualFunc(s.targets, targets, same) && slices.Equal(s.pods, pods) {
		return
	}
	s.targets, s.files = s.targets[:0], make([]cgroup.Path, 0, 2*len(targets))
	for i := range targets {
		t := &targets[i]
		s.targets = append(s.targets, t.Path)
		s.files = append(s.files, t.Path)
		if inner, ok := t.Path.Inner(); ok && t.Unit == "" {
			s.files = append(s.files, inner) // crun makes it after the scope
		}
	}
	var last cgroup.Path
	for _, p := range pods { // all of one kubelet have the same root
		if root, _ := p.SystemPartition(); root != last {
			s.files, last = append(s.files, root), root
		}
	}
	s.pods, s.parents = pods, parentsOf(pods)
}

func parentsOf(pods []cgroup.Path) []cgroup.Path {
	parents := make([]cgroup.Path, 0, len(pods)+24)
	// The cgroups of the kubelet with the default --cgroup-root, and in a kind node.
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
		system := childOf(top, "system") // of the kubelet's system partition
		for _, parent := range []cgroup.Path{top, system} {
			parents = append(parents, parent, childOf(parent, "burstable"), childOf(parent, "besteffort"))
		}
	}
	slices.Sort(parents) // equal sets must compare as equal
	return parents
}

// childOf returns the cgroup that the kubelet makes below one of its own cgroups.
func childOf(parent cgroup.Path, name string) cgroup.Path {
	if stem, ok := strings.CutSuffix(parent.Base(), ".slice"); ok {
		name = stem + "-" + name + ".slice"
	}
	return parent.Join(name)
}
