package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestStrangerConfined: a container that the runtime has not told of runs in the
// shared pool from its first moment, off the CPUs of owners, and nothing of it is
// recorded; once it is known it gets what it should have.
func TestStrangerConfined(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(owner, "4-5")
	pod := n.RunPod("late", "default", "guaranteed", 2, nil)
	n.AwaitCPUs(pod, "2-3")
	r.settled()
	release := n.Runtime.Hang("ContainerStatus")
	defer release()
	late := n.RunContainer(pod, "a", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(late, "2-3")
	if unit, err := n.Units.Properties(t.Context(), cgroup.Path(n.Runtime.Cgroup(late)).Base()); err != nil || !unit.CPUs.IsEmpty() {
		t.Errorf("AllowedCPUs of a container that is not known: %s, %v; want none", unit.CPUs, err)
	}
	n.CheckClaims()
	// systemd applies what it has: the file is repaired, and that is all.
	n.WriteFile(late, cgroup.FileCPUs, "0-7")
	n.AwaitCPUs(late, "2-3")
	release()
	n.AwaitCPUs(late, "6-7")
	r.settled()
	n.CheckClaims()
	for _, o := range n.Journal().Originals {
		if string(o.Path) == n.Runtime.Cgroup(late) && o.File == cgroup.FileCPUs && o.Value != "" {
			t.Errorf("the original of the cpuset is %q, want none", o.Value)
		}
	}
}

// TestStrangerWithSpecification: a cpuset that a container brings along stays while
// its container is not known, unless somebody else owns CPUs of it.
func TestStrangerWithSpecification(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	owner := n.RunContainer(n.RunPod("owner", "default", "guaranteed", 2, nil), "a", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(owner, "4-5")
	pod := n.RunPod("late", "default", "burstable", 0, nil)
	n.AwaitCPUs(pod, "2-3")
	r.settled()
	release := n.Runtime.Hang("ContainerStatus")
	defer release()
	res := nodefixture.WholeCPUs(0)
	res.CPUs = "0"
	// Seen when it is whole: between mkdir and the write of its CPUs it has none.
	var stays string
	n.Tree.LoseNotices(func() { stays = n.RunContainer(pod, "stays", res) })
	res.CPUs = "0-7"
	goes := n.RunContainer(pod, "goes", res)
	n.AwaitCPUs(goes, "2-3")
	if at := n.State(stays).Effective.String(); at != "0" {
		t.Errorf("runs on %s, want its own 0", at)
	}
	n.CheckClaims()
	r.stop()
}
