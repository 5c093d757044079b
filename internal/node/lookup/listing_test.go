package lookup_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestLocate checks that List finds cgroups that the runtime does not report by their
// names, and does not take the cgroup of a container's monitor.
func TestLocate(t *testing.T) {
	w := newWorld()
	const (
		systemd  = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice"
		cgroupfs = "root/kubepods/podu2"
	)
	for _, p := range []string{systemd + "/cri-containerd-c1.scope", systemd + "/crio-conmon-c2.scope", systemd + "/crio-c2.scope/container", cgroupfs + "/c3"} {
		w.tree.MkdirAll(p)
	}
	for id, uid := range map[string]string{"p1": "u-1", "p2": "u2"} {
		w.pods[id] = cri.Pod{ID: id, UID: uid, Ready: true}
	}
	for _, id := range []string{"c1", "c2", "c3", "none"} {
		w.containers[id] = cri.Container{ID: id, PodID: "p1", State: cri.Running}
	}
	w.isPartial = true
	l := w.list(t, lookup.Query{})
	got := make(map[string]cgroup.Path)
	for i := range l.Pods {
		got[l.Pods[i].ID], _, _ = l.Pods[i].Cgroups(cgroup.DriverSystemd)
	}
	for i := range l.Containers {
		c := &l.Containers[i]
		if got[c.ID], _ = c.Cgroup(cgroup.DriverSystemd); c.PodID != "p1" {
			t.Errorf("container %s has the sandbox %q; want p1 of the list", c.ID, c.PodID)
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

// TestListInPods checks that a listing contains the cgroups in the slices of pods on request.
func TestListInPods(t *testing.T) {
	w := newWorld()
	w.run()
	const monitor = "kubepods.slice/" + slice + "/crio-conmon-c.scope"
	w.tree.MkdirAll(monitor)
	for name, q := range map[string]lookup.Query{
		"new":   {},
		"known": {Known: map[string]bool{"p": true, "c": true}, Slices: []cgroup.Path{"kubepods.slice/" + slice}},
	} {
		for _, asked := range []bool{false, true} {
			q.InPods = asked
			found := w.list(t, q)
			if got := len(found.InPods) == 1 && found.InPods[0] == monitor; got != asked {
				t.Errorf("%s pod, asked %t: %v", name, asked, found.InPods)
			}
		}
	}
}

// TestSandboxNewerThanTheList checks that List fetches a sandbox that the runtime has, but
// does not list yet, for new and for known containers.
func TestSandboxNewerThanTheList(t *testing.T) {
	for _, known := range []bool{false, true} {
		w := newWorld()
		w.run()
		w.unlisted["p"] = true
		l := w.list(t, lookup.Query{Known: map[string]bool{"c": known}})
		if len(l.Pods) != 1 || l.Pods[0].Name != "a" {
			t.Errorf("container known %t: pods %+v", known, l.Pods)
		}
	}
}
