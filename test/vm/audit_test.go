//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

// TestAudit plants offenders on the CPUs of an exclusive container of a node with a runtime and a kubelet.
func TestAudit(t *testing.T) {
	leave(t)
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/audit")
}
