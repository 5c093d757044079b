package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestUnidentifiedConfined checks that an unidentified container runs in the shared pool from its
// first moment, without a record. After its identification it is placed.
func TestUnidentifiedConfined(t *testing.T) {
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
	n.CheckOccupants()
	// systemd applies its own value: only the file is repaired.
	n.WriteFile(late, cgroup.FileCPUs, "0-7")
	n.AwaitCPUs(late, "2-3")
	release()
	n.AwaitCPUs(late, "6-7")
	r.settled()
	n.CheckOccupants()
	for _, o := range n.Journal().Originals {
		if string(o.Path) == n.Runtime.Cgroup(late) && o.File == cgroup.FileCPUs && o.Value != "" {
			t.Errorf("the original of the cpuset is %q, want none", o.Value)
		}
	}
}

// TestUnidentifiedWithSpecification checks that the cpuset of an unidentified container stays,
// unless it contains CPUs of an owner.
func TestUnidentifiedWithSpecification(t *testing.T) {
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
	// The test waits for the complete cgroup: after mkdir its cpuset is empty for a moment.
	var stays string
	n.Tree.LoseNotices(func() { stays = n.RunContainer(pod, "stays", res) })
	res.CPUs = "0-7"
	goes := n.RunContainer(pod, "goes", res)
	n.AwaitCPUs(goes, "2-3")
	if at := n.State(stays).Effective.String(); at != "0" {
		t.Errorf("runs on %s, want its own 0", at)
	}
	n.CheckOccupants()
	r.stop()
}
