package notices_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/notices"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// unidentifiedWorld is a node with two containers that the daemon does not know: "free" has no cpuset, and
// "own" has CPU 0 from its specification.
type unidentifiedWorld struct {
	*notices.Unidentified
	node      *nodefixture.Node
	inventory *inventory.Inventory
	free, own string
}

func newUnidentifiedWorld(t *testing.T, change func(*hostenv.Host)) *unidentifiedWorld {
	t.Helper()
	w := &unidentifiedWorld{node: nodefixture.New(t, nodefixture.Spec{})}
	h := w.node.Host()
	change(&h)
	w.inventory = inventory.New(h.Driver)
	w.Unidentified = &notices.New(notices.Sources{
		Host: &h, Objects: w.inventory.Objects(), Cache: kernelstate.New(h.Cgroups.Reader(), w.node.Logger()),
		Originals: undo.Document{}.Journal().Originals, Others: new(desired.OtherManagers),
	}).Unidentified
	pod, own := w.node.RunPod("u", "default", "burstable", 0, nil), nodefixture.WholeCPUs(0)
	own.CPUs = "0"
	w.free, w.own = w.node.RunContainer(pod, "free", nodefixture.WholeCPUs(0)), w.node.RunContainer(pod, "own", own)
	return w
}

func (w *unidentifiedWorld) path(id string) cgroup.Path {
	return cgroup.Path(w.node.Runtime.Cgroup(id))
}

// limit returns the CPUs of the targets, with owned CPUs.
func (w *unidentifiedWorld) limit(owned cpuset.Set) map[cgroup.Path]string {
	all := make(map[cgroup.Path]string)
	for _, t := range w.Limit(cpuset.Range(2, 3), owned, nil) {
		all[t.Path] = t.CPUs.String()
	}
	return all
}

// TestTrack checks which cgroups count as unidentified.
func TestTrack(t *testing.T) {
	w := newUnidentifiedWorld(t, func(*hostenv.Host) {})
	if id := w.Track(w.path(w.free)); id != w.free || !w.Has(w.path(w.free)) || w.IsEmpty() {
		t.Errorf("Track returned %q; want %q", id, w.free)
	}
	if id := w.Track(w.path(w.free)); id != "" {
		t.Errorf("%q is tracked twice; want %q", id, "")
	}
	if id := w.Track(w.path(w.free).Parent()); id != "" {
		t.Errorf("the slice of a pod is tracked as %q; want %q", id, "")
	}
	w.inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: w.own, State: cri.Running}})
	if id := w.Track(w.path(w.own)); id != "" {
		t.Errorf("the known container %q is tracked; want %q", id, "")
	}
	if w.Forget(w.path(w.free)); !w.IsEmpty() {
		t.Error("a removed cgroup is tracked")
	}
	for name, change := range map[string]func(*hostenv.Host){
		"no runtime":      func(h *hostenv.Host) { h.Runtime = nil },
		"mode: observe":   func(h *hostenv.Host) { h.Observes = true },
		"kubelet decides": func(h *hostenv.Host) { h.CPUManager = new(nodefixture.StaticKubelet) },
	} {
		if w := newUnidentifiedWorld(t, change); w.Track(w.path(w.free)) != "" {
			t.Errorf("%s: a container is tracked", name)
		}
	}
}

// TestLimit checks the targets: a cpuset of the specification stays, unless it contains CPUs of an
// owner, and a container with a target is no longer unidentified.
func TestLimit(t *testing.T) {
	w := newUnidentifiedWorld(t, func(*hostenv.Host) {})
	w.Track(w.path(w.free))
	w.Track(w.path(w.own))
	if d := cmp.Diff(map[cgroup.Path]string{w.path(w.free): "2-3"}, w.limit(cpuset.Range(4, 5))); d != "" {
		t.Errorf("targets (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[cgroup.Path]string{w.path(w.free): "3", w.path(w.own): "3"}, w.limit(cpuset.Of(0, 2))); d != "" {
		t.Errorf("targets with CPU 0 owned (-want +got):\n%s", d)
	}
	if got := w.limit(cpuset.Range(2, 3)); len(got) > 0 {
		t.Errorf("targets without shared CPUs: %v", got)
	}
	if all := w.All(); !all[w.path(w.free)].Equal(cpuset.Of(3)) || len(all) != 2 {
		t.Errorf("the last targets are %v", all)
	}
	known := []cgroup.Target{{Path: w.path(w.own), Container: w.own, CPUs: cpuset.Of(2)}}
	if got := w.Limit(cpuset.Of(2), cpuset.Set{}, known); len(got) != 2 || w.Has(w.path(w.own)) {
		t.Errorf("with a target of its own: %+v", got)
	}
	if err := w.node.Runtime.StopContainer(w.free); err != nil {
		t.Fatal(err)
	}
	if got := w.limit(cpuset.Set{}); len(got) > 0 || !w.IsEmpty() {
		t.Errorf("after the end of the container: %v", got)
	}
}
