package inventory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestLocate checks that List finds cgroups that the runtime does not report by their
// names, and does not take the cgroup of a container's monitor.
func TestLocate(t *testing.T) {
	w := newWorld(t)
	const (
		systemd  = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice"
		cgroupfs = "root/kubepods/podu2"
	)
	for _, p := range []string{systemd + "/cri-containerd-c1.scope", systemd + "/crio-conmon-c2.scope", systemd + "/crio-c2.scope/container", cgroupfs + "/c3"} {
		w.tree.MkdirAll(p)
	}
	for id, uid := range map[string]string{"p1": "u-1", "p2": "u2"} {
		w.runtime.pods[id] = cri.Pod{ID: id, UID: uid, Ready: true}
		w.runtime.partial[id] = true
	}
	for _, id := range []string{"c1", "c2", "c3", "none"} {
		w.runtime.containers[id] = cri.Container{ID: id, PodID: "p1", State: cri.Running}
		w.runtime.partial[id] = true
	}
	w.list()
	got := make(map[string]cgroup.Path)
	for p := range w.Pods() {
		got[p.Pod.ID] = p.Slice
	}
	for c := range w.Containers() {
		if got[c.Container.ID] = c.Path; w.PodOf(c) == nil {
			t.Errorf("container %s has no pod", c.Container.ID)
		}
	}
	want := map[string]cgroup.Path{
		"p1": systemd, "p2": cgroupfs,
		"c1": systemd + "/cri-containerd-c1.scope", "c2": systemd + "/crio-c2.scope", "c3": cgroupfs + "/c3", "none": "",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("cgroups (-want +got):\n%s", d)
	}
}
