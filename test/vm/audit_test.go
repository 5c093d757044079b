//go:build vm

package vm_test

import (
	"flag"
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
)

var auditTest = flag.Bool("audit", false, "run TestAudit")

// TestAudit plants offenders on the CPUs of an exclusive container of a node with a runtime and a kubelet.
func TestAudit(t *testing.T) {
	if !*auditTest {
		t.Skip("has not been seen to pass yet: -audit")
	}
	m := vm.Start(t, vm.Config{Topology: "8c2n", Node: true})
	installDaemon(t, m)
	vm.RunTests(t, m, "./guest/audit")
}
