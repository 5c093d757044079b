//go:build vm

package vm_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/test/vm"
	"github.com/cpupoold/cpupoold/test/vm/internal/matrix"
)

// TestLiveDaemon has the daemon watch the CPUs of containers that start and stop.
func TestLiveDaemon(t *testing.T) {
	leave(t)
	vm.RunTests(t, liveNode(t), "./guest/livedaemon", "-rounds=2", "-test.run=^TestHandovers$")
}

// liveNode returns a node with the daemon and the drop-in of the live audit.
func liveNode(t *testing.T) *vm.VM {
	t.Helper()
	m := vm.Start(t, matrix.Pairs()[0].Config)
	installDaemon(t, m)
	const folder = "/etc/systemd/system/cpupoold.service.d"
	run(t, m, "mkdir", "-p", folder)
	if err := m.CopyTo(t.Context(), "../../systemd/live-audit.conf", folder+"/live-audit.conf"); err != nil {
		t.Fatal(err)
	}
	run(t, m, "systemctl", "daemon-reload")
	return m
}
