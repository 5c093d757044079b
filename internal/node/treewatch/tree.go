// Package treewatch decides which cgroups are watched: for writes to their files, and for cgroups
// that appear and disappear in the slices of pods. One goroutine uses a [Tree].
package treewatch

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Tree holds the watched cgroups.
type Tree struct {
	log     *slog.Logger
	wake    chan struct{} // holds one token while there are notices to take
	watcher *cgroup.Watcher
	err     error // why some cgroups are not watched
	// slices are the slices of pods that have appeared, reported by the runtime or not.
	slices map[cgroup.Path]bool
	set    Set
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

// Use replaces the watcher. Earlier notices are lost, and the first Update reports all watched
// cgroups as changed.
func (w *Tree) Use(watcher *cgroup.Watcher, err error) {
	w.watcher, w.err = watcher, err
	w.ForgetPods()
}

// Watcher returns the watcher, nil while none runs.
func (w *Tree) Watcher() *cgroup.Watcher { return w.watcher }

// State returns the state of the watcher as a source.
func (w *Tree) State() telemetry.SourceState {
	if w.watcher == nil || w.err != nil {
		return telemetry.SourceLost
	}
	return telemetry.SourceOK
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
func (w *Tree) Update(targets []cgroup.Target, m *inventory.Inventory, lists bool, more ...cgroup.Path) {
	if w.watcher == nil {
		return
	}
	pods := slices.AppendSeq(m.PodSlices(), maps.Keys(w.slices))
	slices.Sort(pods)
	w.set.Update(targets, slices.Compact(pods))
	files, parents := w.set.Files(), w.set.Parents()
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
