//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestTenants runs pods that attack the daemon while pods with exclusive CPUs start.
func TestTenants(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Memory: 4096})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/tenants")
	vm.RunTests(t, m, "./guest/daemon", "-annotations", "-test.run=^TestAnnotations$")
}
