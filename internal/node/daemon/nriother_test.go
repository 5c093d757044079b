package daemon

import (
	"os"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestNRIOfAnotherRuntime checks a machine with two runtimes, of which the one without the pods
// listens on the NRI socket: the daemon reports that, and places containers as without NRI. When
// the runtime of the pods has the socket, the daemon connects.
func TestNRIOfAnotherRuntime(t *testing.T) {
	n := newNRINode(t)
	other := testnode.StartRuntime(t, testnode.RuntimeConfig{NRI: true})
	n.Runtime.NRIDown()
	socket := n.Runtime.NRISocket()
	_ = os.Remove(socket) // the other runtime removes it when it starts
	if err := os.Symlink(other.NRISocket(), socket); err != nil {
		t.Fatal(err)
	}
	pod := n.RunPod("a", "default", "burstable", 0, nil)
	r := n.start()
	r.view("other runtime", func(v *telemetry.View) bool {
		return v.Sources[telemetry.NRI] == telemetry.SourceLost && v.Problems["NRIOtherRuntime"] == 1
	})
	n.AwaitCPUs(n.RunContainer(pod, "app", cri.Resources{Shares: 512}), "2-3")

	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.NRIUp(); err != nil {
		t.Fatal(err)
	}
	r.connected()
	r.view("no problem", func(v *telemetry.View) bool { return v.Problems["NRIOtherRuntime"] == 0 })
	r.quiet()
}
