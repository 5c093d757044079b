//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestTenants runs pods that attack the daemon beside pods with exclusive CPUs.
func TestTenants(t *testing.T) {
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/tenants")
}
