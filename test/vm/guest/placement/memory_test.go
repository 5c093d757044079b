//go:build guest

package placement_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	kubeletConfig = "/var/lib/kubelet/config.yaml"
	memoryState   = "/var/lib/kubelet/memory_manager_state"
)

// staticMemory makes the kubelet pin memory. Only then does it report the NUMA nodes of memory and hugepages.
const staticMemory = `
memoryManagerPolicy: Static
systemReserved: {memory: 128Mi}
reservedMemory:
- numaNode: 0
  limits: {memory: 128Mi}
`

// TestHugepages checks that CPUs are chosen on the only node with the container's
// hugepages.
func TestHugepages(t *testing.T) {
	for _, node := range []int{0, 1} {
		t.Run(fmt.Sprintf("on node %d", node), func(t *testing.T) {
			n := newNode(t)
			n.setHugepages(node, 16)
			n.restartKubelet(staticMemory)
			n.StartDaemon(n.fixed(option("topology-policy", "single-numa-node")))
			n.apply(pod("a", manifest.Container{Name: "app", CPU: "2", Memory: "64Mi", Limited: true, Extra: map[string]string{"hugepages-2Mi": "16Mi"}}))
			n.meets(expectations{"a/app": on(node, 2)})
		})
	}
}

// setHugepages makes hugepages of a node until the end of the test.
func (n *node) setHugepages(node, count int) {
	n.Helper()
	file := fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/hugepages-2048kB/nr_hugepages", node)
	set := func(count int) {
		n.Helper()
		if err := os.WriteFile(file, fmt.Append(nil, count), 0); err != nil {
			n.Fatal(err)
		}
		if got := n.Run("cat", file); got != fmt.Sprintln(count) {
			n.Fatalf("%s is %q; want %d: the node's memory is in pieces", file, got, count)
		}
	}
	set(count)
	n.Cleanup(func() { set(0) })
}

// restartKubelet restarts the kubelet with lines added to its configuration, and with the original one at the end of the test. It removes
// the memory manager's state, because a state of another policy or of other memory stops the kubelet from starting.
func (n *node) restartKubelet(lines string) {
	n.Helper()
	original, err := os.ReadFile(kubeletConfig)
	if err != nil {
		n.Fatal(err)
	}
	restart := func(config string) {
		n.Helper()
		n.Run("systemctl", "stop", "kubelet")
		n.Write(kubeletConfig, config)
		// A kubelet that has just been started has not made it yet.
		if err := os.Remove(memoryState); err != nil && !errors.Is(err, fs.ErrNotExist) {
			n.Fatal(err)
		}
		n.Run("systemctl", "start", "kubelet")
	}
	n.Cleanup(func() {
		n.WithdrawAll() // while this kubelet is here to end them
		restart(string(original))
	})
	restart(string(original) + lines)
}
