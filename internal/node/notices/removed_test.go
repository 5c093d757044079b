package notices_test

import (
	"log/slog"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/notices"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	pod  = cgroup.Path("kubepods.slice/kubepods-podu.slice")
	path = pod + "/cri-containerd-1.scope"
)

// kernel is a fake kernel with the cgroups of a map.
type kernel map[cgroup.Path]bool

func (k kernel) Read(p cgroup.Path) (cgroup.State, error) {
	if !k[p] {
		return cgroup.State{}, cgroup.ErrGone
	}
	return cgroup.State{Path: p}, nil
}
func (k kernel) Check(st cgroup.State) (cgroup.State, error) { return st, nil }
func (k kernel) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }
func (k kernel) Rest()                                       {}

// removedWorld is a node whose cgroup path is removed. Container 1 of a pod was in it.
type removedWorld struct {
	*notices.Removed
	kernel kernel
}

func newRemovedWorld(state cri.State) *removedWorld {
	w := &removedWorld{kernel: make(kernel)}
	m, j, log := inventory.New(cgroup.DriverSystemd), undo.Document{}.Journal(), slog.New(slog.DiscardHandler)
	w.Removed = &notices.New(notices.Sources{Objects: m.Objects(), Cache: kernelstate.New(w.kernel, log), Originals: j.Originals,
		Partitions: partition.New(partition.Sources{Journal: j})}).Removed
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Name: "a", Namespace: "default", CgroupParent: string(pod)}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", PodID: "p", State: state, CgroupsPath: "kubepods-podu.slice:cri-containerd:1"}})
	j.Originals.Note(undo.Original{Path: path, File: cgroup.FileCPUs})
	j.Originals.Note(undo.Original{Path: pod, File: cgroup.FileCPUs})
	return w
}

func (w *removedWorld) originals() (n int) {
	for range w.Originals.Keys() {
		n++
	}
	return n
}

// TestMissing checks which object is fetched for a missing cgroup, and when writes are allowed again.
func TestMissing(t *testing.T) {
	w := newRemovedWorld(cri.Running)
	if c, s := w.NoteMissing(path); c != "1" || s != "" || !w.IsMissing(path) {
		t.Errorf("container %q, sandbox %q", c, s)
	}
	if c, s := w.NoteMissing(path); c+s != "" {
		t.Errorf("%q is fetched twice; want %q", c+s, "")
	}
	if c, s := w.NoteMissing(pod); c != "" || s != "p" {
		t.Errorf("pod: container %q, sandbox %q", c, s)
	}
	if c, s := w.NoteMissing("system.slice/x.scope"); c+s != "" || w.IsMissing("system.slice/x.scope") {
		t.Errorf("unknown cgroup: container %q, sandbox %q", c, s)
	}
	if w.Fetched("1"); !w.IsMissing(path) {
		t.Error("a cgroup that does not exist can be written")
	}
	w.kernel[path], w.kernel[pod] = true, true
	if w.Fetched("1"); w.IsMissing(path) || !w.IsMissing(pod) {
		t.Error("the cgroups of the fetched container cannot be written, or those of another object can")
	}
	if w.Listed(); w.IsMissing(pod) {
		t.Error("a cgroup cannot be written after a listing")
	}
}

// TestDropOriginals checks that the originals of a cgroup go when it is removed for good.
func TestDropOriginals(t *testing.T) {
	w := newRemovedWorld(cri.Running)
	if w.DropOriginals(); w.originals() != 2 {
		t.Error("originals are dropped without a notice")
	}
	w.kernel[path] = true
	w.Notice(path)
	if w.DropOriginals(); w.originals() != 2 {
		t.Error("originals of an existing cgroup are dropped")
	}
	delete(w.kernel, path)
	if w.DropOriginals(); w.originals() != 1 {
		t.Error("originals of a removed cgroup stay")
	}
	w = newRemovedWorld(cri.Created)
	w.Notice(path)
	if w.DropOriginals(); w.originals() != 2 {
		t.Error("originals of a container without a cgroup yet are dropped")
	}
	w = newRemovedWorld(cri.Running)
	w.Originals.Note(undo.Original{Path: path, File: cgroup.FilePartition, Value: string(cgroup.MemberPartition)})
	w.Notice(path)
	if w.DropOriginals(); w.originals() != 3 {
		t.Error("originals of a partition that the parents may still have are dropped")
	}
}

// TestPrune checks that a listing drops the originals of all removed cgroups.
func TestPrune(t *testing.T) {
	w := newRemovedWorld(cri.Running)
	w.kernel[pod] = true
	gone := w.Prune()
	if !gone(path) || gone(pod) || w.originals() != 1 {
		t.Errorf("gone %t, %t; %d originals", gone(path), gone(pod), w.originals())
	}
}
