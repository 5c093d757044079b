//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestStaticKubelet runs cpupoold with a kubelet whose CPU manager allocates CPUs.
func TestStaticKubelet(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "4c1n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/statickubelet")
}
