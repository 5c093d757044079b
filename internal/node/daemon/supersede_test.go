package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
)

// TestStartThatFailed: the runtime tells nobody of a container whose start has failed,
// and the next instance, which the kubelet makes, does not wait for its CPUs.
func TestStartThatFailed(t *testing.T) {
	n := driftNode(t)
	r := n.start()
	r.settled()
	n.eventually("the listing after the event stream is there", func() bool { return len(n.logged("runtime event stream")) > 0 })
	r.quiet()
	pod := n.pod("owner", "default", "guaranteed", 2, nil)
	failed, err := n.runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "a", Resources: whole(2)})
	if err != nil {
		t.Fatal(err)
	}
	n.eventually("CPUs on record before the start", func() bool {
		c, err := n.client.ContainerStatus(t.Context(), failed)
		return err == nil && c.Recorded.CPUs == "4-5"
	})
	if err := n.runtime.FailStart(failed); err != nil {
		t.Fatal(err)
	}
	n.made[pod+"/a"]++
	again := n.container(pod, "a", whole(2))
	n.runsOn(again, "4-5")
	n.foreign(again, "cpuset.cpus", "0-3")
	n.runsOn(again, "4-5")
	r.quiet()
	n.check()
}
