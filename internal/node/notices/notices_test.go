package notices_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/exposure"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/notices"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// world is a node with a container that is a target, and one that the daemon does not know.
type world struct {
	*notices.Notices
	node           *nodefixture.Node
	known, unknown cgroup.Path
	unknownID      string
	targets        []cgroup.Target
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{node: nodefixture.New(t, nodefixture.Spec{})}
	c, err := w.node.Config()
	settings := new(desired.Settings)
	if err == nil {
		_, err = settings.Begin(c, w.node.CPUs.Now(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	h, log, j, others := w.node.Host(), w.node.Logger(), undo.Document{}.Journal(), new(desired.OtherManagers)
	m, cache, backoffs, weights := inventory.New(h.Driver), kernelstate.New(h.Cgroups.Reader(), log), retry.New(), formula.New("")
	q := quiet.New(cpuset.Set{})
	w.Notices = notices.New(notices.Sources{
		Host: &h, Log: log, Objects: m.Objects(), Cache: cache, Originals: j.Originals, Auxiliary: auxiliary.New(h.Driver), Others: others,
		Partitions: partition.New(partition.Sources{Host: &h, Log: log, Settings: settings, Objects: m.Objects(), Others: others, Cache: cache,
			Memory: h.Cgroups.PartitionMemory(), Backoffs: backoffs, Journal: j, Quiet: q}),
		Exposures: exposure.New(m.Objects(), cache, h.Cgroups.Usage, true), Tree: treewatch.New(log),
		Drifts: drift.New(drift.Sources{Objects: m.Objects(), Cache: cache, Originals: j.Originals, Backoffs: backoffs, Formula: &weights, Log: log,
			AddEvent: func(cgroup.Path, history.Event) {}}),
	})
	pod := w.node.RunPod("u", "default", "burstable", 0, nil)
	id := w.node.RunContainer(pod, "known", nodefixture.WholeCPUs(0))
	w.unknownID = w.node.RunContainer(pod, "unknown", nodefixture.WholeCPUs(0))
	w.known, w.unknown = cgroup.Path(w.node.Runtime.Cgroup(id)), cgroup.Path(w.node.Runtime.Cgroup(w.unknownID))
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, State: cri.Running, CgroupsPath: string(w.known)}})
	w.targets = []cgroup.Target{{Container: id, Path: w.known, CPUs: cpuset.Range(2, 3)}}
	w.refresh()
	return w
}

func (w *world) refresh() { w.Cache.Refresh(w.targets, w.Objects) }

// handle handles one change.
func (w *world) handle(kind cgroup.ChangeKind, parent cgroup.Path, name string) notices.Result {
	return w.Handle([]cgroup.Change{{Kind: kind, Path: parent, Name: name, At: time.Now()}}, w.targets)
}

// TestWritten checks that a write by another process needs a repair, and that a write without a new
// value, or to a cgroup that will be read anyway, needs none.
func TestWritten(t *testing.T) {
	w := newWorld(t)
	written := func() notices.Result { return w.handle(cgroup.Written, w.known, cgroup.FileCPUs) }
	if r := written(); len(r.Repairs) > 0 || (r.One || r.All) {
		t.Errorf("a write without a new value: %+v", r)
	}
	w.node.WriteFile(w.targets[0].Container, cgroup.FileCPUs, "0-7")
	if r := written(); !slices.Equal(r.Repairs, []cgroup.Path{w.known}) || !w.Cache.IsStale(w.known) {
		t.Errorf("an external write: %+v, to be read again: %t", r, w.Cache.IsStale(w.known))
	}
	w.refresh()
	earlier := w.Cache.Current(w.known).State
	earlier.Effective = cpuset.Of(3)
	w.Cache.NoteReading(earlier)
	if r := written(); len(r.Repairs) != 1 || w.Cache.Current(w.known).Effective.Equal(cpuset.Of(3)) {
		t.Errorf("other effective CPUs than at the last reading: %+v", r)
	}
	if r := w.handle(cgroup.Written, "system.slice/other.service", cgroup.FileCPUs); len(r.Repairs) > 0 || (r.One || r.All) {
		t.Errorf("a write to an unknown cgroup: %+v", r)
	}
}

// TestChildren checks the scope of cgroups that appear and disappear.
func TestChildren(t *testing.T) {
	w := newWorld(t)
	if r := w.handle(cgroup.Appeared, w.unknown.Parent(), w.unknown.Base()); !r.All || !slices.Equal(r.Unknown, []string{w.unknownID}) || !w.Unidentified.Has(w.unknown) {
		t.Errorf("an unidentified container: %+v", r)
	}
	if r := w.handle(cgroup.Gone, w.unknown.Parent(), w.unknown.Base()); (r.One || r.All) || w.Unidentified.Has(w.unknown) {
		t.Errorf("its end: %+v", r)
	}
	if r := w.handle(cgroup.Appeared, w.known.Parent(), w.known.Base()); !r.All || len(r.Unknown) > 0 || !w.Cache.IsStale(w.known) {
		t.Errorf("the cgroup of a known container: %+v", r)
	}
	w.refresh()
	if r := w.handle(cgroup.Gone, w.known.Parent(), w.known.Base()); (!r.One || r.All) || !w.Cache.IsStale(w.known) {
		t.Errorf("its end: %+v", r)
	}
	if r := w.handle(cgroup.Appeared, "system.slice", "other.service"); (r.One || r.All) || len(r.Unknown) > 0 {
		t.Errorf("a service: %+v", r)
	}
}

// TestLost checks that all cgroups are read again after a loss of notices.
func TestLost(t *testing.T) {
	w := newWorld(t)
	if r := w.handle(cgroup.Flooded, w.known, ""); !r.All || r.Lost || w.Cache.HasStale() {
		t.Errorf("too many notices about one cgroup: %+v", r)
	}
	if r := w.handle(cgroup.Overflow, "", ""); !r.All || !r.Lost || !w.Cache.IsStale(w.known) {
		t.Errorf("lost notices: %+v", r)
	}
}

// TestTake checks that Take returns the notices of the watcher, and a pass for missing watches.
func TestTake(t *testing.T) {
	w := newWorld(t)
	if r := w.Take(w.targets, time.Minute); r.One || r.All {
		t.Errorf("without a watcher: %+v", r)
	}
	watcher, err := w.Tree.Open(w.Host.Cgroups, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = watcher.Close() })
	w.Tree.Use(watcher, nil)
	w.Watch(w.targets)
	w.Take(w.targets, time.Minute) // the first watch reports all cgroups
	w.refresh()
	w.node.WriteFile(w.targets[0].Container, cgroup.FileCPUs, "0-7")
	var repairs []cgroup.Path
	w.node.Eventually("notice of a write", func() bool {
		repairs = append(repairs, w.Take(w.targets, time.Minute).Repairs...)
		return slices.Contains(repairs, w.known)
	})
}
