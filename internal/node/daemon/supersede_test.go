package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
)

// TestStartThatFailed checks that the next instance of a container whose start has failed,
// which no event reports, gets its CPUs at once.
func TestStartThatFailed(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	r.settled()
	n.Eventually("the listing after the event stream is there", func() bool { return len(n.Logged("runtime event stream")) > 0 })
	r.quiet()
	pod := n.RunPod("owner", "default", "guaranteed", 2, nil)
	failed, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "a", Attempt: n.NextAttempt(pod, "a"), Resources: nodefixture.WholeCPUs(2)})
	if err != nil {
		t.Fatal(err)
	}
	n.Eventually("CPUs on record before the start", func() bool {
		c, err := n.Client.ContainerStatus(t.Context(), failed)
		return err == nil && c.Recorded.CPUs == "4-5"
	})
	if err := n.Runtime.FailStart(failed); err != nil {
		t.Fatal(err)
	}
	again := n.RunContainer(pod, "a", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(again, "4-5")
	n.WriteFile(again, "cpuset.cpus", "0-3")
	n.AwaitCPUs(again, "4-5")
	r.quiet()
	n.CheckOccupants()
}
