package units_test

import (
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestScopes checks that the daemon queries the properties of a scope once for each listing,
// and not while they are known, written or still to come.
func TestScopes(t *testing.T) {
	w := newWorld(t, "")
	id := w.node.RunContainer(w.node.RunPod("u", "default", "burstable", 0, nil), "app", nodefixture.WholeCPUs(0))
	p := cgroup.Path(w.node.Runtime.Cgroup(id))
	w.Inventory.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, State: cri.Running, CgroupsPath: string(p)}})
	want := []cgroup.Target{{Path: p.Parent(), CPUs: cpuset.Of(2)}, {Path: p, Container: id, CPUs: cpuset.Of(2)}}
	s := w.Scopes()
	if ask := s.Ask(want); len(ask) > 0 || s.IsAnswered(p) {
		t.Errorf("unread cgroups %v are asked for", ask)
	}
	w.Cache.Refresh(want, w.Inventory.Objects())
	write := cgroup.Write{Path: p, Container: id, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "2"}
	w.Cache.NoteSubmitted(write)
	if ask := s.Ask(want); len(ask) > 0 {
		t.Errorf("a cgroup with a write in progress is asked for")
	}
	w.Cache.NoteFinished(write, cgroup.UnitState{}, nil)
	if ask := s.Ask(want); !slices.Equal(ask, []cgroup.Path{p}) || !s.IsAwaited(p) || s.IsAnswered(p) {
		t.Errorf("asked for %v, awaited %t, answered %t", ask, s.IsAwaited(p), s.IsAnswered(p))
	}
	s.Take(p, cgroup.UnitState{})
	if ask := s.Ask(want); len(ask) > 0 || s.IsAwaited(p) || !s.IsAnswered(p) {
		t.Errorf("after the answer: asked for %v, awaited %t, answered %t", ask, s.IsAwaited(p), s.IsAnswered(p))
	}
	s.AskAgain()
	if ask := s.Ask(want); !slices.Equal(ask, []cgroup.Path{p}) {
		t.Errorf("after a listing, asked for %v; want %v", ask, []cgroup.Path{p})
	}
	s.AskAgain()
	s.Take(p, cgroup.UnitState{Known: true, CPUs: cpuset.Of(2)})
	if ask := s.Ask(want); len(ask) > 0 || !w.Cache.Current(p).Unit.CPUs.Equal(cpuset.Of(2)) {
		t.Errorf("known properties are asked for: %v, %+v", ask, w.Cache.Current(p).Unit)
	}
}
