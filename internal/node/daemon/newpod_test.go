package daemon

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestNewPods checks that the processes of two new pods start on no CPU of an owner, and that an
// owner in one of them gets its CPUs.
func TestNewPods(t *testing.T) {
	for name, nri := range map[string]bool{"events": false, "NRI": true} {
		t.Run(name, func(t *testing.T) {
			n := newNodeWith(t, testnode.RuntimeConfig{NRI: nri})
			r := n.start()
			if nri {
				r.connected()
			}
			owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
			n.AwaitCPUs(owner, "4-5")
			r.settled()
			du, web := sliceOf("du", map[string]string{"cpus": "2"}), sliceOf("web", nil)
			for _, slice := range []string{du, web} {
				n.Tree.MkdirAll(slice)
			}
			for _, slice := range []string{du, web} {
				n.AwaitFile(slice, cgroup.FileCPUs, "2-3")
			}
			pods := map[string]string{du: n.RunPod("du", "default", "guaranteed", 2, nil), web: n.RunPod("web", "default", "burstable", 0, nil)}
			for slice, pod := range pods {
				if on := n.State(pod).Effective; on.Overlaps(cpuset.Of(4, 5)) {
					t.Errorf("the pause container in %s starts on CPUs %s", slice, on)
				}
			}
			app, on := n.BeginContainer(pods[du], "a", nodefixture.WholeCPUs(2))
			if nri && on.String() != "6-7" {
				t.Errorf("the owner begins on CPUs %s; want 6-7", on)
			}
			n.AwaitCPUs(app, "6-7")
			for slice, pod := range pods {
				n.AwaitCPUs(pod, "2-3")
				n.AwaitFile(slice, cgroup.FileCPUs, "0-7")
			}
			r.settled()
			n.CheckClaims()
			if n := len(r.loop.snapshot.Load().Drifts); n > 0 {
				t.Errorf("%d external writes; want none", n)
			}
			if unit, err := n.Units.Properties(t.Context(), cgroup.Path(du).Base()); err != nil || !unit.CPUs.IsEmpty() {
				t.Errorf("AllowedCPUs of the slice is %s, %v; want none", unit.CPUs, err)
			}
		})
	}
}

// TestReplyWaitsForSlice checks that the runtime gets no reply with CPUs that the slice of the pod
// lacks. A slice that cannot be written leads to a refusal.
func TestReplyWaitsForSlice(t *testing.T) {
	s := newScenario(t, &txtar.Archive{Files: []txtar.File{{Name: "node", Data: []byte("nri")}}})
	s.Tree.MkdirAll("kubepods.slice")
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	slice := sliceOf("du", map[string]string{"cpus": "2"})
	s.Tree.MkdirAll(slice)
	s.settle()
	if cpus := s.CPUsOf(cgroup.Path(slice)); cpus != "2-3" {
		t.Fatalf("the new slice has CPUs %s", cpus)
	}
	// systemd can clear the file of a slice without processes.
	s.Tree.MkdirAll(slice + "/conmon")
	if err := s.Tree.Write(slice+"/conmon/cgroup.procs", "99"); err != nil {
		t.Fatal(err)
	}
	s.RefuseWrites(cgroup.Path(slice), cgroup.FileCPUs)
	answer := s.question("du/app", nodefixture.WholeCPUs(2), t.Context().Done())
	s.settle()
	if len(answer) > 0 {
		t.Errorf("reply %+v while the slice has CPUs %s", <-answer, s.CPUsOf(cgroup.Path(slice)))
	}
	if err := s.wait("2s"); err != nil {
		t.Fatal(err)
	}
	if a := <-answer; a.err == nil || !strings.Contains(a.err.Error(), slice) {
		t.Errorf("reply %+v; want a refusal with the slice", a)
	}
}
