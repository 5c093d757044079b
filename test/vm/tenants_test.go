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
	vm.RunTests(t, m, "./guest/tenants", "-test.run=^TestTenants$")
	vm.RunTests(t, m, "./guest/daemon", "-annotations", "-test.run=^TestAnnotations$")
}

// TestCrowds runs pods with very many cgroups and threads while pods with exclusive CPUs start and become partitions.
func TestCrowds(t *testing.T) {
	leave(t)
	for _, suite := range []string{"trixie", "forky"} { // Linux 6.12 and 7
		t.Run(suite, func(t *testing.T) {
			m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Suite: suite, Memory: 4096})
			installDaemon(t, m)
			vm.RunTests(t, m, "./guest/tenants", "-test.run=^TestCrowds$")
		})
	}
}

// TestWaits repeats creations that wait, of fifty pods, while other containers start.
func TestWaits(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true, Memory: 4096})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/tenants", "-test.run=^TestWaits$")
}
